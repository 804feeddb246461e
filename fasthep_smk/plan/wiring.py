"""What the nodes of one job hand to each other, and which of it is worth keeping for later.

A job of several nodes writes what others read. If one of its histograms changes, the rest of what
it made is still valid, but the event stream that this histogram is filled from was never written.
A job keeps it, if that costs little: it is a *cached stream*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fasthep_smk.flow.graph import Graph, Node, Ref
from fasthep_smk.flow.shapes import Key
from fasthep_smk.plan.columns import Columns, needs, united

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Dataset


@dataclass(frozen=True)
class Wire:
    """A product that a node takes in; of an event stream at least these columns."""

    key: Key
    columns: tuple[str, ...] | None


@dataclass(frozen=True)
class Wiring:
    """What each node of a job takes in, and the streams worth keeping with their columns.

    ``writers`` may write files for the user, besides their products.
    """

    wires: Mapping[str, tuple[Wire, ...]] = field(default_factory=dict)
    cached: Mapping[Key, tuple[str, ...] | None] = field(default_factory=dict)
    sources: frozenset[str] = frozenset()
    writers: frozenset[str] = frozenset()


def wiring(
    graph: Graph,
    nodes: Iterable[str],
    dataset: Dataset | None,
    declared: Mapping[Key, Iterable[str] | None],
) -> Wiring:
    """Return how the active nodes of a job are wired for a dataset.

    ``declared`` are the columns of those event streams that the job hands on in any case.
    """
    mine = set(nodes)
    inside = [node for node in graph.nodes.values() if node.id in mine]
    needed: dict[Key, Columns] = {
        key: None if live is None else frozenset(live) for key, live in declared.items()
    }
    wires: dict[str, tuple[Wire, ...]] = {}
    cached: dict[Key, Columns] = {}
    for node in reversed(inside):
        wanted, incoming = needs(node, needed), list[Wire]()
        for ref in inputs_for(graph, node, dataset):
            if ref.is_dependency:
                continue
            is_stream = graph.nodes[ref.node].outputs.get(ref.port) == "event_stream"
            incoming.append(Wire(ref.key, _sorted(wanted) if is_stream else None))
            if not is_stream:
                continue
            needed[ref.key] = united(needed.get(ref.key, frozenset()), wanted)
            at_the_end = node.role == "transform" and not node.streams()
            if at_the_end and ref.node in mine and ref.key not in declared:
                cached[ref.key] = united(cached.get(ref.key, frozenset()), wanted)
        wires[node.id] = tuple(incoming)
    return Wiring(
        wires,
        {key: _sorted(columns) for key, columns in cached.items()},
        frozenset(node.id for node in inside if node.role == "source"),
        frozenset(
            node.id for node in inside if node.role in ("sink", "observer") or not node.published
        ),
    )


def inputs_for(graph: Graph, node: Node, dataset: Dataset | None) -> list[Ref]:
    """Return what a node reads for a dataset: inactive nodes are by-passed, or left out."""
    actual = [
        graph.resolve(ref, dataset, consumer=node.id)
        if not ref.is_dependency
        else (ref if graph.active(ref.node, dataset) else None)
        for ref in node.inputs
    ]
    return [ref for ref in actual if ref is not None]


def _sorted(columns: Columns) -> tuple[str, ...] | None:
    return None if columns is None else tuple(sorted(columns))
