"""Cut a plan into tasks: runs of nodes that one job executes without a file in between.

``stage``: each stage is a task; what is attached to it (a partition-time writer, an observer)
rides along. ``auto``: nodes are joined as long as a file between them would gain nothing; a cut is
made only where the route changes (the pools, or what a stage asks for itself) and where the
systematic variations part, so that what they share is computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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


@dataclass
class _Group:
    key: object
    nodes: list[str] = field(default_factory=list)
    needs: set[int] = field(default_factory=set)


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
    merged = _union(graphs)
    if signatures is None:
        signatures = {name: node_signatures(graph, name) for name, graph in graphs.items()}
    classes = _share_classes(signatures)
    routes = route_keys(merged, router)
    cutter = _Cutter(
        keys={node: (routes[node], classes[node]) for node in merged},
        nodes=merged,
        each_stage=granularity == "stage",
    )
    groups = cutter.groups()
    for dataset in datasets:
        for graph in graphs.values():
            groups = _keep_sources_honest(groups, graph, dataset)
    tasks: list[Task] = []
    taken: set[str] = set()
    for nodes in groups:
        name = _name(nodes, merged, taken)
        taken.add(name)
        stages = tuple(dict.fromkeys(_label(merged[node]) for node in nodes))
        tasks.append(
            Task(name, tuple(nodes), stages, route_of([merged[node] for node in nodes], router))
        )
    return tasks


class _Cutter:
    def __init__(
        self, *, keys: Mapping[str, object], nodes: Mapping[str, Node], each_stage: bool
    ) -> None:
        self._keys = keys
        self._nodes = nodes
        self._each_stage = each_stage
        self._groups: list[_Group] = []
        self._of: dict[str, int] = {}

    def groups(self) -> list[list[str]]:
        for node in self._nodes.values():
            producers = list(
                dict.fromkeys(self._of[ref.node] for ref in node.inputs if ref.node in self._of)
            )
            index = self._choose(node, producers)
            if index is None:
                index = len(self._groups)
                self._groups.append(_Group(self._keys[node.id]))
            self._groups[index].nodes.append(node.id)
            self._groups[index].needs.update(item for item in producers if item != index)
            self._of[node.id] = index
        return [self._groups[index].nodes for index in self._ordered()]

    def _choose(self, node: Node, producers: list[int]) -> int | None:
        if self._each_stage:
            attached = node.role in ("observer", "sink")
            candidates = producers[:1] if attached and len(producers) == 1 else []
        else:
            candidates = [*producers, *range(len(self._groups))]
        for index in candidates:
            others = [item for item in producers if item != index]
            same = self._groups[index].key == self._keys[node.id]
            if same and not any(self._reaches(item, index) for item in others):
                return index
        return None

    def _reaches(self, start: int, goal: int) -> bool:
        """Whether group ``start`` needs group ``goal``, directly or through others."""
        pending, seen = [start], set()
        while pending:
            index = pending.pop()
            if index == goal:
                return True
            if index not in seen:
                seen.add(index)
                pending.extend(self._groups[index].needs)
        return False

    def _ordered(self) -> list[int]:
        done: list[int] = []
        pending = list(range(len(self._groups)))
        while pending:
            ready = next(index for index in pending if self._groups[index].needs.issubset(done))
            done.append(ready)
            pending.remove(ready)
        return done


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
        sources = [
            node for node in nodes if node in graph.nodes and graph.nodes[node].role == "source"
        ]
        trapped = any(
            graph.metadata_only(source, dataset, nodes) != graph.metadata_only(source, dataset)
            for source in sources
        )
        observers = [
            node for node in nodes if node in graph.nodes and graph.nodes[node].role == "observer"
        ]
        if not trapped or not observers:
            kept.append(nodes)
            continue
        kept.append([node for node in nodes if node not in observers])
        kept.append(observers)
    return kept


def _union(graphs: Mapping[str, Graph]) -> dict[str, Node]:
    """Return the partition nodes of all variations, each once, in topological order."""
    merged: dict[str, Node] = {}
    for graph in graphs.values():
        for node in graph.nodes.values():
            if node.scope == "partition":
                merged.setdefault(node.id, node)
    return merged


def _share_classes(
    signatures: Mapping[str, Mapping[str, NodeSignature]],
) -> dict[str, tuple[int, ...]]:
    """Return, for each node, which variations have the same node there.

    Entry ``i`` is the first variation whose node equals that of variation ``i``; -1 without node.
    """
    ordered = [
        {node: item.digest for node, item in by_node.items()} for by_node in signatures.values()
    ]
    nodes = dict.fromkeys(node for item in ordered for node in item)
    return {
        node: tuple(
            next(
                (index for index, other in enumerate(ordered) if other.get(node) == item[node]), -1
            )
            if node in item
            else -1
            for item in ordered
        )
        for node in nodes
    }


def _label(node: Node) -> str:
    return node.stage if node.role == "transform" else node.id


def _name(nodes: list[str], merged: Mapping[str, Node], taken: set[str]) -> str:
    """Return a rule name that says what runs: one stage, or the first and the last of several."""
    stages = [merged[node].stage for node in nodes if merged[node].role == "transform"]
    if not stages:
        stages = nodes[:1]
    first, last = encode(stages[0]), encode(stages[-1])
    if not merged[nodes[0]].id.startswith("stage.") and len(stages) == 1 and nodes[0] == stages[0]:
        name = encode(nodes[0].replace(".", "_"))
    else:
        name = f"stage_{first}" if first == last else f"stages_{first}_to_{last}"
    if name in taken:
        name = f"{name}_{encode('|'.join(nodes))[-10:]}"
    return name
