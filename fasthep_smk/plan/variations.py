"""Let systematic variations share what they have in common.

A weight variation reads one branch more than the nominal plan, and FAST-HEP's compiler writes the
branches into the source: taken literally, no two variations would share even the reading. Where
nothing downstream looks at all columns, reading a few more changes no result, so the sources of
all variations are given the union of their branches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fasthep_smk.flow.graph import Graph
from fasthep_smk.plan.columns import Live
from fasthep_smk.plan.signatures import reads_root
from fasthep_smk.util.documents import YamlMapping

_DEMAND = ("branches", "branches_by_dataset")


def unite_sources(graphs: Mapping[str, Graph], live: Mapping[str, Live]) -> frozenset[str]:
    """Give equal sources of all variations the same branches, in place (graphs and plans).

    Return the sources of which reading another branch as well changes nothing: their readers say
    which columns they need. Variations ask such a source for the same branches, since one of them
    may read for all.
    """
    closed: set[str] = set()
    for source in dict.fromkeys(name for graph in graphs.values() for name in graph.nodes):
        nodes = {name: graph.nodes.get(source) for name, graph in graphs.items()}
        there = {name: node for name, node in nodes.items() if node is not None}
        params = [dict(node.params) for node in there.values()]
        if not all(map(reads_root, there.values())) or any(
            live[name][(source, port)] is None
            for name, node in there.items()
            for port in node.streams()
        ):
            continue
        if any(own != params[0] for own in params):
            reads_all = not all(any(own.get(name) for name in _DEMAND) for own in params)
            if reads_all or any(_besides(own) != _besides(params[0]) for own in params):
                continue
            united = _united(params)
            for name, node in there.items():
                graphs[name].nodes[source] = replace(node, params=united)
                graphs[name].plan.get_node(source).params = dict(united)
        closed.add(source)
    return frozenset(closed)


def _besides(params: YamlMapping) -> YamlMapping:
    return {key: value for key, value in params.items() if key not in _DEMAND}


def _united(params: Sequence[YamlMapping]) -> YamlMapping:
    united = dict(params[0])
    branches = [str(item) for mapping in params for item in mapping.get("branches") or ()]
    if branches:
        united["branches"] = list(dict.fromkeys(branches))
    by_dataset: dict[str, set[str]] = {}
    for mapping in params:
        for dataset, items in (mapping.get("branches_by_dataset") or {}).items():
            by_dataset.setdefault(str(dataset), set()).update(map(str, items))
    if by_dataset:
        united["branches_by_dataset"] = {
            dataset: sorted(names) for dataset, names in by_dataset.items()
        }
    return united
