"""The graph of rules as a picture: in layers, each rule below all those that it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from html import escape
from statistics import fmean

from fasthep_smk.contrib.report.rules import RuleFacts
from fasthep_smk.util.names import encode

#: Of more rules a picture says nothing.
MOST = 150
#: Sizes of a box, of the space beside and below it, and how far aside a line is drawn that passes.
_WIDTH, _HEIGHT, _BESIDE, _BELOW, _ASIDE = 200, 46, 24, 44, 160
#: Characters of a name that fit into a box.
_NAME = 26


def placed(reads: Mapping[str, Sequence[str]]) -> dict[str, tuple[float, float]]:
    """Return where the middle of each rule goes; ``reads`` says what each of them reads."""
    depth: dict[str, int] = {}
    for rule in _in_order(reads):
        depth[rule] = max((depth[read] + 1 for read in reads[rule] if read in depth), default=0)
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for rule in reads:
        layers[depth[rule]].append(rule)
    width = max(map(len, layers), default=0) * (_WIDTH + _BESIDE)
    places: dict[str, tuple[float, float]] = {}
    for number, layer in enumerate(layers):
        # In the order of those that they read, so that few lines cross.
        above = {
            rule: [places[read][0] for read in reads[rule] if read in places] for rule in layer
        }
        for at, rule in enumerate(sorted(layer, key=lambda rule: fmean(above[rule] or [0]))):
            height = number * (_HEIGHT + _BELOW) + _HEIGHT / 2
            places[rule] = width * (at + 0.5) / len(layer), height
    return places


def _in_order(reads: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the rules so that each comes after those that it reads; in a damaged table, as is."""
    try:
        return [rule for rule in TopologicalSorter(reads).static_order() if rule in reads]
    except CycleError:
        return list(reads)


def as_svg(rules: Sequence[RuleFacts], colours: Mapping[str, str]) -> str:
    """Return the graph of rules, each of them a link to its part of the page.

    ``colours`` are those of the pools.
    """
    places = placed({row.rule: row.reads for row in rules})
    parts = [
        _edge(*places[source], *places[row.rule])
        for row in rules
        for source in row.reads
        if source in places and places[source][1] < places[row.rule][1]
    ]
    parts += [_box(row, *places[row.rule], colours) for row in rules]
    width = max((x for x, _ in places.values()), default=0) + _WIDTH / 2 + _BESIDE
    height = max((y for _, y in places.values()), default=0) + _HEIGHT / 2 + 2
    return (
        f'<svg viewBox="0 -2 {width:g} {height + 2:g}" width="{width:g}" role="group" '
        f'aria-label="The graph of rules">{"".join(parts)}</svg>'
    )


def _edge(x: float, y: float, to_x: float, to_y: float) -> str:
    """Return a curve from one box to another; past a layer, it goes beside the box there."""
    start, bend, end = y + _HEIGHT / 2, (y + to_y) / 2, to_y - _HEIGHT / 2
    by, to = (at + _ASIDE * (to_y - y > _HEIGHT + _BELOW) for at in (x, to_x))
    return f'<path d="M{x:g} {start:g}C{by:g} {bend:g} {to:g} {bend:g} {to_x:g} {end:g}"/>'


def _box(row: RuleFacts, x: float, y: float, colours: Mapping[str, str]) -> str:
    rule, states, pools = row.rule, row.states, row.pools
    total = sum(states.values())
    text = f"{states['done']} of {total} done"
    text += f", {states['running']} run" if states["running"] else ""
    text += f", {states['failed']} failed" if states["failed"] else ""
    name = rule if len(rule) <= _NAME else f"{rule[: _NAME - 1]}…"
    colour = colours.get(pools[0], "currentColor") if pools else "currentColor"
    kind = "failed" if states["failed"] else "open" if states["done"] < total else "done"
    return (
        f'<a href="#rule-{encode(rule)}" class="{kind}">'
        f"<title>{escape(rule)}: {escape(text)}; pool {escape(', '.join(pools))}</title>"
        f'<rect x="{x - _WIDTH / 2:g}" y="{y - _HEIGHT / 2:g}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" rx="6" style="--pool:{colour}"/>'
        f'<text x="{x:g}" y="{y - 3:g}">{escape(name)}</text>'
        f'<text x="{x:g}" y="{y + 14:g}" class="told">{escape(text)}</text></a>'
    )
