"""Which nodes of a plan go where: routing keys of nodes, and the route of nodes in one job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fasthep_smk import sites
from fasthep_smk.config.execution import Execution
from fasthep_smk.config.requests import Route
from fasthep_smk.config.routing import Router
from fasthep_smk.flow.graph import Node
from fasthep_smk.plan.rules import Variation
from fasthep_smk.util.errors import Finding


def route_keys(nodes: Mapping[str, Node], router: Router) -> dict[str, str]:
    """Return the routing key of each node; nodes of equal keys may share a job.

    A source goes where its only user goes; what is attached to a stage goes with the stage.
    """
    keys = {node.id: _key(node, router) for node in nodes.values()}
    _follow(nodes, keys, router)
    for node in nodes.values():
        if node.role == "source":
            users = {
                keys[item.id]
                for item in nodes.values()
                if item.role == "transform" and any(ref.node == node.id for ref in item.inputs)
            }
            if len(users) == 1:
                keys[node.id] = users.pop()
    _follow(nodes, keys, router)  # what observes a source goes where the source went
    return keys


def route_of(nodes: Iterable[Node], router: Router) -> Route:
    """Return the route of nodes with equal keys."""
    speaking = [node for node in nodes if node.role == "transform" or node.execution]
    return router.route(
        [node.stage for node in speaking], needs_gpu=any(node.needs_gpu for node in speaking)
    )


def joint_route(what: str, nodes: Iterable[Node], router: Router) -> tuple[Route, list[str]]:
    """Return the route of a job that runs all of ``nodes``, wherever they would like to go.

    What happens at the end of a dataset or of the run is one job. It goes where the first node
    that says something wants to go; a warning names the others.
    """
    wishes: dict[str, list[Node]] = {}
    for node in nodes:
        if node.execution or node.needs_gpu:
            wishes.setdefault(_key(node, router), []).append(node)
    if not wishes:
        return router.route([]), []
    first, *others = wishes.values()
    route = route_of(first, router)
    warnings = [
        f"{what} is one job, in pool {route.attempts[0].pool!r} because of {first[0].stage}. It "
        f"runs {', '.join(node.stage for node in group)} there, too, not in pool "
        f"{route_of(group, router).attempts[0].pool!r}"
        for group in others
        if route_of(group, router).pools != route.pools
    ]
    return route, warnings


def _key(node: Node, router: Router) -> str:
    return router.key(node.stage, needs_gpu=node.needs_gpu)


def _follow(nodes: Mapping[str, Node], keys: dict[str, str], router: Router) -> None:
    for node in nodes.values():
        if node.role in ("observer", "sink") and node.inputs and not node.execution:
            keys[node.id] = keys.get(node.inputs[0].node) or router.key(None)


def gpu_findings(variations: Iterable[Variation], execution: Execution) -> Iterable[Finding]:
    """Return stages that need a GPU, and would get none; jobs see those that this machine has."""
    here = sites.system(execution.site.system).machine(execution.site)
    nodes = [node for item in variations for node in item.graph.nodes.values()]
    stages = dict.fromkeys(node.stage for node in nodes if node.needs_gpu)
    return () if here and here.gpus else execution.router.without_gpu(stages)
