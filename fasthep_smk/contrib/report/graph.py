"""The graph of rules as a picture: in layers, each rule below those that it reads.

That is the usual way (K. Sugiyama and others, 1981): a rule's layer is the longest path to it, an
edge that passes layers gets a place in each of them, and the order in a layer follows from the
places of the neighbours in the one before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from html import escape
from itertools import pairwise
from statistics import fmean

from fasthep_smk.contrib.report.rules import RuleFacts
from fasthep_smk.util.names import encode

__all__ = ["MOST", "Placed", "as_svg", "placed"]

#: Of more rules a picture says nothing.
MOST = 150
#: Sizes of a box, of the space beside and below it, and of the place of an edge that passes.
_WIDTH, _HEIGHT, _BESIDE, _BELOW, _PASS = 200, 46, 24, 44, 20
_SWEEPS = 4
#: Characters of a name that fit into a box.
_NAME = 26

#: A rule, or the place of an edge in a layer that it passes: from, to, layer.
_Item = str | tuple[str, str, int]


@dataclass(frozen=True)
class Placed:
    """Where the middle of each rule is, the points that each edge goes through, and the size."""

    rules: Mapping[str, tuple[float, float]]
    edges: Mapping[tuple[str, str], Sequence[tuple[float, float]]]
    width: float
    height: float


def placed(reads: Mapping[str, Sequence[str]]) -> Placed:
    """Return where the rules of a graph go; ``reads`` says what each of them reads."""
    depth: dict[str, int] = {}
    for rule in _in_order(reads):
        depth[rule] = max((depth[one] + 1 for one in reads[rule] if one in depth), default=0)
    layers: list[list[_Item]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for rule in reads:
        layers[depth[rule]].append(rule)
    before: dict[_Item, list[_Item]] = {}
    paths: dict[tuple[str, str], list[_Item]] = {}
    for rule in reads:
        for source in reads[rule]:
            if source not in depth or depth[source] >= depth[rule]:
                continue  # a damaged table: rules do not read each other in a circle
            passes = [(source, rule, level) for level in range(depth[source] + 1, depth[rule])]
            for one in passes:
                layers[one[2]].append(one)
            paths[source, rule] = [source, *passes, rule]
            for above, below in pairwise(paths[source, rule]):
                before.setdefault(below, []).append(above)
    _order(layers, before)
    return _places(layers, paths)


def _in_order(reads: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the rules so that each comes after those that it reads; in a damaged table, as is."""
    try:
        return [rule for rule in TopologicalSorter(reads).static_order() if rule in reads]
    except CycleError:
        return list(reads)


def _order(layers: Sequence[list[_Item]], before: Mapping[_Item, Sequence[_Item]]) -> None:
    """Sort each layer by where its neighbours are, downwards and upwards in turn."""
    after: dict[_Item, list[_Item]] = {}
    for item, sources in before.items():
        for source in sources:
            after.setdefault(source, []).append(item)
    for sweep in range(_SWEEPS):
        place: dict[_Item, float] = {}
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            middle = {}
            for at, item in enumerate(layer):
                beside = (before if sweep % 2 == 0 else after).get(item, ())
                near = [place[one] for one in beside if one in place]
                middle[item] = fmean(near) if near else (at + 0.5) / len(layer)
            layer.sort(key=middle.__getitem__)
            place |= {item: (at + 0.5) / len(layer) for at, item in enumerate(layer)}


def _places(
    layers: Sequence[Sequence[_Item]], paths: Mapping[tuple[str, str], Sequence[_Item]]
) -> Placed:
    sizes = [[_WIDTH if isinstance(item, str) else _PASS for item in layer] for layer in layers]
    widths = [sum(layer) + _BESIDE * (len(layer) - 1) for layer in sizes]
    width = max(widths, default=0)
    at: dict[_Item, tuple[float, float]] = {}
    for number, layer in enumerate(layers):
        left = (width - widths[number]) / 2
        for item, size in zip(layer, sizes[number], strict=True):
            at[item] = left + size / 2, number * (_HEIGHT + _BELOW) + _HEIGHT / 2
            left += size + _BESIDE
    return Placed(
        {item: place for item, place in at.items() if isinstance(item, str)},
        {edge: [at[item] for item in path] for edge, path in paths.items()},
        width,
        max(0, len(layers) * (_HEIGHT + _BELOW) - _BELOW),
    )


def as_svg(rules: Sequence[RuleFacts], colours: Mapping[str, str]) -> str:
    """Return the graph of rules, each of them a link to its part of the page.

    ``colours`` are those of the pools.
    """
    found = placed({row.rule: row.reads for row in rules})
    parts = [_edge(points) for points in found.edges.values()]
    parts += [_box(row, *found.rules[row.rule], colours) for row in rules]
    size = f"{found.width + 4:g} {found.height + 4:g}"
    return (
        f'<svg viewBox="-2 -2 {size}" width="{found.width + 4:g}" role="group" '
        f'aria-label="The graph of rules">{"".join(parts)}</svg>'
    )


def _edge(points: Sequence[tuple[float, float]]) -> str:
    """Return a curve that leaves and enters boxes upright."""
    half = _HEIGHT / 2
    drawn = f"M{points[0][0]:g} {points[0][1] + half:g}"
    for (x, y), (to_x, to_y) in pairwise(points):
        bend = (y + to_y) / 2
        drawn += f"C{x:g} {bend:g} {to_x:g} {bend:g} {to_x:g} {to_y - half:g}V{to_y + half:g}"
    return f'<path d="{drawn.rpartition("V")[0]}"/>'


def _box(row: RuleFacts, x: float, y: float, colours: Mapping[str, str]) -> str:
    rule, states, pools = row.rule, row.states, row.pools
    total = sum(states.values())
    told = f"{states['done']} of {total} done"
    told += f", {states['running']} run" if states["running"] else ""
    told += f", {states['failed']} failed" if states["failed"] else ""
    name = rule if len(rule) <= _NAME else f"{rule[: _NAME - 1]}…"
    colour = colours.get(pools[0], "currentColor") if pools else "currentColor"
    kind = "failed" if states["failed"] else "open" if states["done"] < total else "done"
    return (
        f'<a href="#rule-{encode(rule)}" class="{kind}">'
        f"<title>{escape(rule)}: {escape(told)}; pool {escape(', '.join(pools))}</title>"
        f'<rect x="{x - _WIDTH / 2:g}" y="{y - _HEIGHT / 2:g}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" rx="6" style="--pool:{colour}"/>'
        f'<text x="{x:g}" y="{y - 3:g}">{escape(name)}</text>'
        f'<text x="{x:g}" y="{y + 14:g}" class="told">{escape(told)}</text></a>'
    )
