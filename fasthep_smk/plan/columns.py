"""Which columns of an event stream anything downstream may still need."""

from __future__ import annotations

from collections.abc import Mapping

from fasthep_smk.flow.graph import Graph, Node
from fasthep_smk.flow.shapes import Key

#: Names of columns of an event stream; ``None``: all of them.
Columns = frozenset[str] | None
#: The live columns of each event stream.
Live = dict[Key, Columns]


def live_columns(graph: Graph) -> Live:
    """Return the live columns of every event-stream port.

    A column lives if a consumer reads it or passes it on to something that does. What a consumer
    makes itself counts as read too, so that a name clash is still noticed. One consumer of unknown
    needs (an observer, a writer without ``keep``, an op that declares nothing, a join) makes all
    columns live.
    """
    nodes = graph.nodes.values()
    live: Live = {(node.id, port): frozenset() for node in nodes for port in node.streams()}
    for node in reversed(nodes):
        for ref in node.inputs:
            if ref.key in live and not ref.is_dependency:
                live[ref.key] = united(live[ref.key], needs(node, live))
    return live


def needs(node: Node, live: Mapping[Key, Columns]) -> Columns:
    """Return the columns that a node reads itself, or passes on to something that needs them."""
    passed = [live.get((node.id, port), frozenset()) for port in node.streams()]
    if node.reads is None or None in passed:
        return None
    return node.reads.union(*(columns for columns in passed if columns))


def united(columns: Columns, more: Columns) -> Columns:
    """Return the columns of both."""
    return None if columns is None or more is None else columns | more
