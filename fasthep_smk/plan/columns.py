"""Which columns of an event stream anything downstream may still need."""

from __future__ import annotations

from fasthep_smk.flow.graph import Graph
from fasthep_smk.flow.shapes import Key

#: Names of the live columns of each event stream; ``None`` where every column may be needed.
Live = dict[Key, frozenset[str] | None]


def live_columns(graph: Graph) -> Live:
    """Return the live columns of every event-stream port.

    A column lives if a consumer reads it or passes it on to something that does. What a consumer
    makes itself counts as read too, so that a name clash is still noticed. One consumer of unknown
    needs (an observer, a writer without ``keep``, an op that declares nothing, a join) makes all
    columns live.
    """
    consumers = graph.consumers()
    live: Live = {}
    for node in reversed(graph.nodes.values()):
        for port in node.streams():
            needed: frozenset[str] | None = frozenset()
            for consumer in consumers.get((node.id, port), []):
                passed_on = [live.get((consumer.id, name)) for name in consumer.streams()]
                if consumer.reads is None or needed is None or None in passed_on:
                    needed = None
                    break
                needed = needed.union(consumer.reads, *(item for item in passed_on if item))
            live[(node.id, port)] = needed
    return live
