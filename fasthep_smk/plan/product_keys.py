"""Which products of a plan leave their job, and who reads them after by-passes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fasthep_smk.flow.shapes import Key
from fasthep_smk.plan.columns import Live
from fasthep_smk.plan.rules import Variation

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Dataset


def consumers_after_bypass(item: Variation) -> dict[Key, set[str]]:
    """Return which nodes read each product, for any dataset, inactive nodes being by-passed."""
    readers: dict[Key, set[str]] = {}
    for dataset in datasets_or_none(item):
        for node in item.graph.nodes.values():
            # What runs at the end of the run has no dataset; it takes what is there.
            if node.scope != "final" and not item.graph.active(node.id, dataset):
                continue
            for ref in node.inputs:
                if ref.is_dependency:
                    continue
                actual = item.graph.resolve(ref, dataset, consumer=node.id)
                if actual is not None:
                    readers.setdefault(actual.key, set()).add(node.id)
    return readers


def late_keys(item: Variation, dataset: str | None) -> list[Key]:
    """Return the products that are reduced after the partitions: retained or read later."""
    graph = item.graph
    late: dict[Key, None] = {}
    content = item.dataset(dataset) if dataset is not None else None
    for node in graph.nodes.values():
        if node.scope == "partition":
            late.update(((node.id, port), None) for port in sorted(node.retained))
        if node.scope in ("dataset", "final"):
            for ref in node.inputs:
                if ref.is_dependency or graph.nodes[ref.node].scope != "partition":
                    continue
                actual = graph.resolve(ref, content, consumer=node.id)
                late.update({actual.key: None} if actual is not None else {})
    return list(late)


def stream_keys_for(item: Variation, scope: str) -> list[Key]:
    return [
        ref.key
        for node in item.graph.nodes.values()
        if node.scope == scope
        for ref in node.inputs
        if not ref.is_dependency
        and item.graph.nodes[ref.node].outputs.get(ref.port) == "event_stream"
    ]


def united_live(known: tuple[str, ...] | None, live: Live, key: Key) -> tuple[str, ...] | None:
    columns = live.get(key)
    if known is None or columns is None:
        return None
    return tuple(sorted({*known, *columns}))


def ports(item: Variation, node: str) -> list[str]:
    return list(item.graph.nodes[node].outputs) if node in item.graph.nodes else []


def dataset_names(item: Variation) -> list[str]:
    return list(dict.fromkeys(partition.dataset for partition in item.partitions))


def partition_counts(item: Variation) -> dict[str, int]:
    return Counter(partition.dataset for partition in item.partitions)


def datasets_or_none(item: Variation) -> list[Dataset | None]:
    return [item.dataset(name) for name in dataset_names(item)] or [None]
