"""Cut a plan into tasks: runs of nodes that one job executes without a file in between.

``stage``: each stage is a task; what is attached to it (a partition-time writer, an observer)
rides along. ``auto``: nodes are joined as long as a file between them would gain nothing; a cut is
made only where the route changes (the pools, or what a stage asks for itself) and where the
systematic variations part, so that what they share is computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fasthep_smk.config.requests import Route
from fasthep_smk.config.routing import Router
from fasthep_smk.config.run_settings import Granularity
from fasthep_smk.flow.graph import Graph, Node
from fasthep_smk.plan.node_routes import route_keys, route_of
from fasthep_smk.plan.signatures import NodeSignature, node_signatures
from fasthep_smk.util.names import encode

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Dataset


@dataclass(frozen=True)
class Task:
    """Nodes that run together, once per partition. ``name`` is the name of their rule."""

    name: str
    nodes: tuple[str, ...]
    stages: tuple[str, ...]
    route: Route


def cut(
    graphs: Mapping[str, Graph],
    granularity: Granularity,
    datasets: Iterable[Dataset | None],
    router: Router,
    signatures: Mapping[str, Mapping[str, NodeSignature]] | None = None,
) -> list[Task]:
    """Return the partition tasks of all variations, in an order in which they can run.

    ``graphs`` holds one graph per variation, ``signatures`` those of its nodes; nodes of equal id
    are the same step of each.
    """
    merged: dict[str, Node] = {}
    for graph in graphs.values():
        for node in graph.nodes.values():
            if node.scope == "partition":
                merged.setdefault(node.id, node)
    if signatures is None:
        signatures = {name: node_signatures(graph, name) for name, graph in graphs.items()}
    routes = route_keys(merged, router)
    keys = {node: (routes[node], _alike(node, signatures)) for node in merged}
    groups = _groups(merged, keys, each_stage=granularity == "stage")
    for dataset in datasets:
        for graph in graphs.values():
            groups = _keep_sources_honest(groups, graph, dataset)
    tasks: dict[str, Task] = {}
    for ids in groups:
        nodes = [merged[node] for node in ids]
        labels = [node.stage if node.role == "transform" else node.id for node in nodes]
        name = _name(nodes)
        if name in tasks:
            name = f"{name}_{encode('|'.join(ids))[-10:]}"
        stages = tuple(dict.fromkeys(labels))
        tasks[name] = Task(name, tuple(ids), stages, route_of(nodes, router))
    return list(tasks.values())


def _alike(node: str, signatures: Mapping[str, Mapping[str, NodeSignature]]) -> tuple[object, ...]:
    """Return what tells which variations have the same node.

    Entry ``i`` is the first variation whose node equals that of variation ``i``; -1 without node.
    """
    digests = [by_node[node].digest if node in by_node else None for by_node in signatures.values()]
    return tuple(-1 if digest is None else digests.index(digest) for digest in digests)


def _groups(
    nodes: Mapping[str, Node], keys: Mapping[str, object], *, each_stage: bool
) -> list[list[str]]:
    """Return nodes in groups of equal keys, in an order in which they can run.

    A node joins the first group that it may, one that it reads before others, as long as no two
    groups then need each other.
    """
    groups: list[list[str]] = []
    needs: list[set[int]] = []  # the groups that each one reads
    at: dict[str, int] = {}

    def with_needed(group: int) -> list[int]:
        found = [group]
        for index in found:  # which grows
            found += needs[index].difference(found)
        return found

    for node in nodes.values():
        read = [*dict.fromkeys(at[ref.node] for ref in node.inputs if ref.node in at)]
        candidates = [*read, *range(len(groups))]
        if each_stage:
            rides_along = node.role in ("observer", "sink") and len(read) == 1
            candidates = read if rides_along else []
        for index in candidates:
            others = (other for other in read if other != index)
            if keys[groups[index][0]] == keys[node.id] and not any(
                index in with_needed(other) for other in others
            ):
                break
        else:
            index = len(groups)
            groups.append([])
            needs.append(set())
        groups[index].append(node.id)
        needs[index].update(other for other in read if other != index)
        at[node.id] = index
    done: list[int] = []
    while len(done) < len(groups):
        left = (index for index in range(len(groups)) if index not in done)
        done.append(next(index for index in left if needs[index].issubset(done)))
    return [groups[index] for index in done]


def _keep_sources_honest(
    groups: list[list[str]], graph: Graph, dataset: Dataset | None
) -> list[list[str]]:
    """Take observers out of a task in which their source would read nothing but the schema.

    FAST-HEP skips the events of a ROOT source if only schema observers follow it *among the nodes
    it is given*. A task that holds the source and its observers, but none of the stages, would
    then hand no events to the next task.
    """
    kept: list[list[str]] = []
    for nodes in groups:
        roles = {node: graph.nodes[node].role for node in nodes if node in graph.nodes}
        trapped = any(
            graph.metadata_only(node, dataset, nodes) != graph.metadata_only(node, dataset)
            for node, role in roles.items()
            if role == "source"
        )
        observers = [node for node, role in roles.items() if trapped and role == "observer"]
        kept.append([node for node in nodes if node not in observers])
        kept += [observers] if observers else []
    return kept


def _name(nodes: Sequence[Node]) -> str:
    """Return a rule name that says what runs: one stage, or the first and the last of several."""
    stages = [encode(node.stage) for node in nodes if node.role == "transform"]
    if not stages:
        return encode(nodes[0].id.replace(".", "_"))
    first, last = stages[0], stages[-1]
    return f"stage_{first}" if first == last else f"stages_{first}_to_{last}"
