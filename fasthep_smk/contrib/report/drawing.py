"""Histograms as small pictures: nominal with its variations, and their ratio to it below.

A picture is SVG, drawn from the values alone: a few kilobytes, so that a page holds many of them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fasthep_smk.contrib.report import results
from fasthep_smk.contrib.report.document import clean
from fasthep_smk.contrib.report.numbers import change

_Numbers: TypeAlias = npt.NDArray[np.float64]
#: The contents of bins along an axis, and their variances: two rows, so that lines can be added.
_Line: TypeAlias = npt.NDArray[np.float64]
_Datasets: TypeAlias = Mapping[str, _Line]

#: Bytes of pictures of histograms in a page.
_ROOM = 4_000_000
#: Bins of a picture: of more, neighbours are drawn as their mean. Datasets with lines of their own.
_BINS, _DATASETS = 100, 8
#: Categories below whose axis anything stands, and characters that there is room for below it.
_CATEGORIES, _CHARACTERS = 10, 50
#: Datasets are drawn on a logarithmic scale if their largest bins differ by more than this factor.
_FAR_APART = 30
#: The size of a picture; where its lines begin and end, and those of the ratio, from the top.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 800, 520, 130, 765, 16, 450
_ABOVE_RATIO, _RATIO = 320, 350
#: Nominal, up, down and others of a group; datasets.
_LINES = ("currentColor", "#e8604c", "#4269d0", "#3ca951", "#efb118")
_COLOURS = (
    "#a463f2", "#3ca951", "#efb118", "#4269d0", "#e8604c", "#6cc5b0", "#c77dba", "#9c6b4e",
    "#97bbf5", "#8c95a3",
)  # fmt: skip


def drawn(build: Path, older: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """Return pictures of histograms, and files of those that are in none, or not with all bins.

    Variations that are ``older`` than nominal are not compared with it.
    """
    stages: dict[str, dict[str, Path]] = {}
    for stage, variation, path in results.listed(build, "histograms"):
        stages.setdefault(stage, {})[variation] = path
    groups, weights = results.variations(build), results.weight_axes(build)
    figures, left_out, room = list[str](), list[str](), _ROOM
    for stage, paths in stages.items():
        drawn, lost = list[str](), list[str]()
        # Axes and annotations may be such as no run makes.
        with contextlib.suppress(Exception), np.errstate(all="ignore"):
            read = {name: results.histogram(path) for name, path in paths.items() if room > 0}
            lost = [name for name, histogram in read.items() if histogram is None]
            readable = {name: histogram for name, histogram in read.items() if name not in lost}
            for variation, together in results.compared(readable, older):
                title = results.title(stage, variation)
                variants, weighted = _variants(together, weights)
                bins = _bins(next(iter(variants.values())))
                lost += [name for name in together if _bins(variants[name]) != bins]
                drawn += _figures(title, variants, weighted, groups)
        room -= sum(map(len, drawn))
        if not drawn or room < 0:
            drawn, lost = [], [next(iter(paths))]
        figures += drawn
        left_out += [str(paths[name].relative_to(build)) for name in lost]
    return figures, left_out


def _variants(of: Mapping[str, Any], weights: set[str]) -> tuple[dict[str, Any], list[str]]:
    """Return histograms by variation, nominal first, and which are along an axis of weights."""
    variants, weighted = dict[str, Any](), dict[str, Any]()
    for variation, histogram in of.items():
        axes = [[*axis] if axis.name in weights else [] for axis in histogram.axes]
        at = next((at for at, names in enumerate(axes) if "nominal" in names), None)
        parts = {"nominal": histogram} if at is None else results.along(histogram, at)
        variants[variation] = parts.pop("nominal")
        weighted = weighted or (parts if len(variants) == 1 else {})
    return variants | weighted, [*weighted]


def _bins(histogram: Any) -> list[Any]:
    return [axis for axis in histogram.axes if axis.name != "dataset"]


def _lines(histogram: Any, number: int) -> dict[str, _Line]:
    """Return the contents along an axis for each dataset."""
    at = number - ("dataset" in [axis.name for axis in histogram.axes[:number]])
    lines = {}
    for dataset, part in results.by_dataset(histogram).items():
        flat = part.project(at)
        values, variances = flat.values(), flat.variances()
        lines[dataset] = np.array([values, 0 * values if variances is None else variances])
    return lines


def _figures(
    stage: str, variants: Mapping[str, Any], weighted: Iterable[str], groups: Mapping[str, str]
) -> Iterator[str]:
    """Yield the pictures of a histogram along each axis, and of its variations."""
    nominal = next(iter(variants.values()))
    axes = [at for at, axis in enumerate(nominal.axes) if axis.name != "dataset" and len(axis)]
    for number in axes:
        axis = nominal.axes[number]
        lines = {
            name: _lines(histogram, number)
            for name, histogram in variants.items()
            if number < len(histogram.axes) and histogram.axes[number] == axis
        }
        of_nominal = next(iter(lines.values()))
        for dataset in of_nominal:
            # A dataset that `apply_to` leaves out has no weights but those of nominal.
            if not any(lines[name][dataset].any() for name in weighted):
                for name in weighted:
                    del lines[name][dataset]
        title = f"{stage}: {axis.label or axis.name}" if len(axes) > 1 else stage
        filled = {dataset: line for dataset, line in of_nominal.items() if line.any()}
        yield _figure(axis, title, _largest(filled) or {"": np.zeros((2, len(axis)))})
        yield from _varied(axis, title, lines, groups)


def _largest(lines: Mapping[str, _Line]) -> dict[str, _Line]:
    """Return the lines of the largest datasets, and of all others one together."""
    order = sorted(lines, key=lambda dataset: -lines[dataset][0].sum())
    rest = [lines[dataset] for dataset in order[_DATASETS:]]
    others = {f"{len(rest)} others": np.sum(rest, axis=0)} if rest else {}
    return {dataset: lines[dataset] for dataset in order[:_DATASETS]} | others


def _varied(
    axis: Any, title: str, lines: Mapping[str, _Datasets], groups: Mapping[str, str]
) -> Iterator[str]:
    """Yield a picture for each group of variations, of all datasets that any of them changes.

    Then those of each of these datasets follow, in a part that is closed.
    """
    (first, nominal), *others = lines.items()
    varied = dict(others)
    members: dict[str, list[str]] = {}
    for name in sorted(varied, key=lambda name: "down" in name.lower()):
        members.setdefault(groups.get(name) or results.group(name), []).append(name)

    def figures(datasets: Iterable[str]) -> Iterator[str]:
        for group, names in members.items():
            shown = [
                dataset for dataset in datasets if all(dataset in varied[name] for name in names)
            ]
            if shown:
                of_each = {first or "nominal": nominal, **{name: varied[name] for name in names}}
                sums = {
                    name: np.sum([datasets[dataset] for dataset in shown], axis=0)
                    for name, datasets in of_each.items()
                }
                of = " + ".join(shown) if len(shown) <= 5 else f"{len(shown)} datasets"
                yield _figure(axis, f"{title}, {group}: {of}", sums, ratio=True)

    changed = [
        dataset
        for dataset, line in nominal.items()
        if any(
            not np.array_equal(line[0], of.get(dataset, line)[0], equal_nan=True)
            for of in varied.values()
        )
    ]
    yield from figures(changed)
    if len(changed) > 1:
        each = "".join(figure for dataset in changed for figure in figures([dataset]))
        yield (
            f"<details><summary>{escape(clean(title))} by dataset</summary>"
            f'<div class="plots small">{each}</div></details>'
        )


def _figure(axis: Any, title: str, lines: Mapping[str, _Line], *, ratio: bool = False) -> str:
    """Return a picture with its caption; with the ratio of all lines to the first below."""
    palette = _COLOURS if len(lines) > 1 and not ratio else _LINES
    colours = [palette[number % len(palette)] for number in range(len(lines))]
    first, total = next((name, line[0].sum()) for name, line in lines.items())
    items = "".join(
        f'<li><i style="background:{colour}"></i>{escape(clean(name))}'
        f"{f' {change(total, line[0].sum())}' if ratio and name != first else ''}</li>"
        for (name, line), colour in zip(lines.items(), colours, strict=True)
        if name
    )
    items += "".join(f"<li>{n}: {escape(clean(name))}</li>" for n, name in _numbered(axis).items())
    return (
        f"<figure>{_svg(axis, [*lines.values()], colours, ratio=ratio)}"
        f'<figcaption>{escape(clean(title))}<ul class="legend">{items}</ul></figcaption></figure>'
    )


def _svg(axis: Any, lines: Sequence[_Line], colours: Sequence[str], *, ratio: bool) -> str:
    bins, bottom = len(axis), _ABOVE_RATIO if ratio else _BOTTOM
    starts = np.arange(0, bins, math.ceil(bins / _BINS))
    ends = np.append(starts, bins)
    widths = np.diff(ends)
    edges = axis.edges[ends]
    values = np.array([np.add.reduceat(line[0], starts) / widths for line in lines])
    values[~np.isfinite(values)] = np.nan  # a gap
    numbers = np.nan_to_num(values)
    frame, drawn, texts = list[str](), list[str](), list[str]()

    def at(numbers: Any, low: float, high: float, top: int, end: int) -> _Numbers:
        share: _Numbers = (np.clip(numbers, low, high) - low) / (high - low)
        return np.rint(end - share * (end - top))

    def scale(ticks: Mapping[float, str], low: float, high: float, top: int, end: int) -> None:
        for tick, label in ticks.items():
            y = int(at(tick, low, high, top, end))
            frame.append(f"M{_LEFT} {y}H{_RIGHT}")
            texts.append(f'<text class="e" x="{_LEFT - 10}" y="{y + 9}">{label}</text>')

    x = at(edges, edges[0], edges[-1], _RIGHT, _LEFT)
    tops = numbers.max(axis=1)
    least = tops[tops > 0].min(initial=math.inf)
    if not ratio and numbers.min() >= 0 and tops.max() > _FAR_APART * least:
        low, high = math.log10(least / 10), math.log10(2 * tops.max())
        values = np.log10(np.maximum(values, 10**low))
        powers = range(math.ceil(low), math.floor(high) + 1)
        scale({n: f"{10.0**n:g}" for n in powers[:: len(powers) // 5 + 1]}, low, high, _TOP, bottom)
        zero = bottom
    else:
        low, high = min(0.0, numbers.min()), max(0.0, numbers.max()) * 1.08 or 1.0
        scale(_ticks(low, high, 4), low, high, _TOP, bottom)
        zero = int(at(0.0, low, high, _TOP, bottom))
    for line, colour in zip(values, colours, strict=True):
        drawn.append(
            f'<path stroke="{colour}" d="{_steps(x, at(line, low, high, _TOP, bottom), zero)}"/>'
        )
    if ratio:
        nominal = np.where(values[0] > 0, values[0], np.nan)  # else a gap: there is no ratio
        errors = np.sqrt(np.add.reduceat(lines[0][1], starts)) / widths / nominal
        ratios = values[1:] / nominal
        seen = np.nan_to_num(np.abs(ratios - 1)[:, nominal > 0.01 * tops[0]])
        spread = min(1.0, max(0.01, 1.3 * seen.max(initial=0.0)))
        low, high = 1 - spread, 1 + spread
        middle = int(at(1.0, low, high, _RATIO, _BOTTOM))
        for edge in (1 + errors, 1 - errors):
            band = _steps(x, at(edge, low, high, _RATIO, _BOTTOM), middle)
            drawn.append(f'<path class="band" d="{band}"/>')
        scale(_ticks(low, high, 4), low, high, _RATIO, _BOTTOM)
        for line, colour in zip(ratios, colours[1:], strict=True):
            places = at(line, low, high, _RATIO, _BOTTOM)
            drawn.append(f'<path stroke="{colour}" d="{_steps(x, places, middle)}"/>')
    for tick, label in _labels(axis, edges).items():
        place = int(at(tick, edges[0], edges[-1], _RIGHT, _LEFT))
        frame.append(f"M{place} {_BOTTOM}v8")
        texts.append(f'<text x="{place}" y="{_BOTTOM + 34}">{escape(clean(label))}</text>')
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"><path class="frame" d="{"".join(frame)}'
        f'M{_LEFT} {_TOP}V{bottom}H{_RIGHT}"/>{"".join(drawn)}{"".join(texts)}'
        f'<text class="e" x="{_RIGHT}" y="{_HEIGHT - 6}">'
        f"{escape(clean(axis.label or axis.name))}</text></svg>"
    )


def _numbered(axis: Any) -> dict[int, str]:
    """Return the names of categories that are too long to stand below their axis, by numbers."""
    if not axis.traits.discrete or len(axis) > _CATEGORIES:
        return {}
    names = [str(name) for name in axis]
    longest = max(map(len, names))
    return dict(enumerate(names, 1)) if longest * len(names) > _CHARACTERS else {}


def _steps(x: _Numbers, y: _Numbers, start: int) -> str:
    """Return the outline of bins with these edges and heights, from a level and back to it.

    A height that is not a number leaves a gap.
    """
    outline = ""
    for part in np.ma.clump_unmasked(np.ma.masked_invalid(y)):  # type: ignore[no-untyped-call]
        ups = np.diff(y[part], prepend=start)
        steps = zip(ups, np.diff(x[part.start : part.stop + 1]), strict=True)
        moves = "".join(f"{f'v{up:.0f}' if up else ''}h{along:.0f}" for up, along in steps)
        outline += f"M{x[part.start]:.0f} {start}{moves}V{start}"
    return outline


def _ticks(low: float, high: float, most: int) -> dict[float, str]:
    """Return round numbers between two others, as they are written."""
    rough = (high - low) / most
    step = 10.0 ** math.floor(math.log10(rough))
    step *= next(factor for factor in (1, 2, 5, 10) if factor * step >= rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return {number * step: f"{number * step:.6g}" for number in range(first, last + 1)}


def _labels(axis: Any, edges: _Numbers) -> dict[float, str]:
    """Return what stands below an axis, and where: the names of categories, or numbers."""
    if axis.traits.discrete and len(axis) <= _CATEGORIES:
        centres = ((edges[:-1] + edges[1:]) / 2).tolist()
        return dict(zip(centres, map(str, _numbered(axis) or axis), strict=True))
    return {} if not axis.traits.ordered else _ticks(float(edges[0]), float(edges[-1]), 5)
