"""Which products of a plan leave their job, and who reads them after by-passes."""

from __future__ import annotations

from fasthep_smk.flow.shapes import Key
from fasthep_smk.plan.rules import Variation
from fasthep_smk.plan.wiring import inputs_for


def consumers_after_bypass(item: Variation) -> dict[Key, set[str]]:
    """Return which nodes read each product, for any dataset, inactive nodes being by-passed."""
    readers: dict[Key, set[str]] = {}
    for dataset in item.datasets():
        for node in item.graph.nodes.values():
            # What runs at the end of the run has no dataset; it takes what is there.
            if node.scope == "final" or item.graph.active(node.id, dataset):
                for ref in inputs_for(item.graph, node, dataset):
                    if not ref.is_dependency:
                        readers.setdefault(ref.key, set()).add(node.id)
    return readers


def late_keys(item: Variation, dataset: str | None) -> list[Key]:
    """Return the products that are reduced after the partitions: retained or read later."""
    graph = item.graph
    late: dict[Key, None] = {}
    content = item.dataset(dataset) if dataset is not None else None
    for node in graph.nodes.values():
        if node.scope == "partition":
            late.update(((node.id, port), None) for port in sorted(node.retained))
        for ref in node.inputs if node.scope in ("dataset", "final") else ():
            if not ref.is_dependency and graph.nodes[ref.node].scope == "partition":
                actual = graph.resolve(ref, content, consumer=node.id)
                late.update({actual.key: None} if actual is not None else {})
    return list(late)


def final_streams(item: Variation) -> list[Key]:
    """Return the event streams that are read at the end of the run."""
    nodes = item.graph.nodes
    inputs = [ref for name in item.nodes_in("final") for ref in nodes[name].inputs]
    return [
        ref.key
        for ref in inputs
        if not ref.is_dependency and nodes[ref.node].outputs.get(ref.port) == "event_stream"
    ]
