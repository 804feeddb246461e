"""Let systematic variations share what they have in common.

A weight variation reads one branch more than the nominal plan, and FAST-HEP's compiler writes the
branches into the source: taken literally, no two variations would share even the reading. Where
nothing downstream looks at all columns, reading a few more changes no result, so the sources of
all variations are given the union of their branches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fasthep_smk.flow.graph import Graph, Node
from fasthep_smk.plan.columns import live_columns
from fasthep_smk.plan.signatures import reads_root
from fasthep_smk.util.documents import YamlMapping

_DEMAND = ("branches", "branches_by_dataset")


def unite_sources(graphs: Mapping[str, Graph]) -> None:
    """Give equal sources of all variations the same branches, in place (graphs and plans)."""
    if len(graphs) < 2:
        return
    live = {name: live_columns(graph) for name, graph in graphs.items()}
    for source in [node for node in next(iter(graphs.values())).nodes.values() if reads_root(node)]:
        sources = {
            name: graph.nodes[source.id]
            for name, graph in graphs.items()
            if source.id in graph.nodes
        }
        rest = [_without_demand(node) for node in sources.values()]
        open_ended = any(
            live[name][(source.id, port)] is None
            for name, node in sources.items()
            for port in node.streams()
        )
        if open_ended or any(item != rest[0] for item in rest):
            continue
        if any(not _lists_branches(node) for node in sources.values()):
            continue  # one of them reads every branch
        united = _united([dict(node.params) for node in sources.values()])
        for name, node in sources.items():
            graphs[name].nodes[source.id] = replace(node, params=united)
            graphs[name].plan.get_node(source.id).params = dict(united)


def _lists_branches(node: Node) -> bool:
    return any(node.params.get(name) for name in _DEMAND)


def _without_demand(node: Node) -> YamlMapping:
    return {key: value for key, value in node.params.items() if key not in _DEMAND}


def _united(params: list[YamlMapping]) -> YamlMapping:
    united = dict(params[0])
    branches = [str(item) for mapping in params for item in mapping.get("branches") or ()]
    if branches:
        united["branches"] = list(dict.fromkeys(branches))
    by_dataset: dict[str, list[str]] = {}
    for mapping in params:
        for dataset, items in (mapping.get("branches_by_dataset") or {}).items():
            names = by_dataset.setdefault(str(dataset), [])
            names.extend(str(item) for item in items if str(item) not in names)
    if by_dataset:
        united["branches_by_dataset"] = {
            dataset: sorted(items) for dataset, items in by_dataset.items()
        }
    return united
