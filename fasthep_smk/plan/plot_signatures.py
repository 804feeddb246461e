"""What nodes at the end of a run make, each by itself: a plot follows from its own histogram.

The job that ends a run reduces everything, and runs again when anything has changed. With a
signature for each of its nodes it need not do again what comes out the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache

from fasthep_smk.flow.graph import Graph, Node
from fasthep_smk.flow.plot_styles import styles_before
from fasthep_smk.plan.signatures import NodeSignature
from fasthep_smk.util.files import digest_of


def end_values(
    graph: Graph,
    known: Mapping[str, NodeSignature],
    reduced: Callable[[str], object],
    around: object,
) -> dict[str, str]:
    """Return the signatures of what the nodes at the end of a run make.

    ``known`` are the signatures of all nodes, ``reduced`` returns those of what a partition's node
    has made of all partitions, and ``around`` is what else all of them see of the run.

    There are none where a node may look at what another has made: if one is a user's own, which
    may read any file, if one reads another's product, or if a hook or modifier is handed them.
    """
    ends = [node for node in graph.nodes.values() if node.scope == "final"]
    names = {node.id for node in ends}
    if graph.hooked or not all(_is_alone(node, names) for node in ends):
        return {}
    surrounding = digest_of(around)
    styles = styles_before(ends)
    made_of = cache(lambda name: digest_of(reduced(name)))
    return {
        node.id: digest_of(
            [
                known[node.id].digest,
                surrounding,
                list(styles[node.id]),
                [[name, made_of(name)] for name in _partitioned(graph, node)],
            ]
        )
        for node in ends
    }


def _is_alone(node: Node, ends: Iterable[str]) -> bool:
    return (
        node.published
        and not node.execution.get("modifiers")
        and not any(ref.node in ends for ref in node.inputs)
    )


def _partitioned(graph: Graph, node: Node) -> list[str]:
    """Return the nodes of partitions whose products a node sees, also through others."""
    partitioned: dict[str, None] = {}
    waiting = [ref.node for ref in node.inputs]
    for name in waiting:  # which grows
        before = graph.nodes[name]
        if before.scope == "partition":
            partitioned[name] = None  # its value for a partition follows from all before it
        else:
            waiting += [ref.node for ref in before.inputs]
    return list(partitioned)
