"""What differs between the results of two build folders, bin by bin and cut by cut."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from fasthep_smk.contrib.report import document, results
from fasthep_smk.contrib.report.compare_files import (
    SAME,
    Difference,
    differing_files,
    differing_skims,
    is_same,
    only_in_one,
    pairs,
)
from fasthep_smk.contrib.report.document import Verdict
from fasthep_smk.contrib.report.facts import Facts, gather
from fasthep_smk.contrib.report.numbers import Number
from fasthep_smk.contrib.report.results import Cutflow
from fasthep_smk.contrib.report.tables import Section
from fasthep_smk.storage import failures
from fasthep_smk.util.documents import JsonObject

#: Of a histogram, this part of its largest bin is nothing.
_NOTHING = 1e-12
#: How many bins of a histogram, and of one dataset, are told.
_BINS = 10
#: The numbers of a cut, in words.
_OF_A_CUT = {
    "before": "events before",
    "after": "events after",
    "weights": "sum of weights",
    "error": "± of the sum",
}
#: A bin as people call it, what of it differs, and its two values.
_Bin: TypeAlias = tuple[str, str, tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What differs between two build folders. ``compared`` is how many of each kind both have.

    Partitions are those that the results of one of them lack; ``bins`` are of ``histograms``.
    """

    builds: Sequence[str]
    verdicts: Sequence[Verdict]
    partitions: Sequence[Difference]
    cutflows: Sequence[Difference]
    histograms: Sequence[Difference]
    bins: Sequence[Difference]
    skims: Sequence[Difference]
    files: Sequence[Difference]
    unread: Sequence[str]
    compared: Mapping[str, int]

    @property
    def differing(self) -> list[str]:
        """The kinds of results that differ, in words."""
        kinds: Mapping[str, Sequence[object]] = {
            "partitions": self.partitions,
            "cutflows": self.cutflows,
            "histograms": self.histograms,
            "skims": self.skims,
            "plots or other files": self.files,
        }
        return [name for name, differences in kinds.items() if differences]

    @property
    def is_same(self) -> bool:
        """Whether anything was compared, and nothing differs."""
        return any(self.compared.values()) and not self.differing


def comparison(one: Path, other: Path) -> Comparison:
    """Return what differs between two build folders.

    Raises:
        Findings: the task tables of one cannot be read.
    """
    both = gather(one), gather(other)
    first, second = map(document.report_on, both)
    histograms, bins, unread = _histograms(one, other)
    counted, files, unread_files = differing_files(one, other)
    compared, skims, unread_skims = differing_skims(one, other)
    answer = Comparison(
        builds=[first.build, second.build],
        verdicts=[first.verdict, second.verdict],
        partitions=[*_lacking(*both)],
        cutflows=[*_cutflows(first.cutflows, second.cutflows)],
        histograms=histograms,
        bins=bins,
        skims=skims,
        files=files,
        unread=[*unread, *unread_skims, *unread_files],
        compared={
            "cutflows": len({row.name for row in (*first.cutflows, *second.cutflows)}),
            "histograms": len({row.name for row in (*first.histograms, *second.histograms)}),
            "skims": compared,
            **counted,
        },
    )
    return document.cleaned(answer)


def as_data(comparison: Comparison) -> JsonObject:
    """Return a comparison as ``fasthep-smk compare --json`` prints it."""
    return {**asdict(comparison), "same": comparison.is_same}


def _cutflows(one: Iterable[Cutflow], other: Iterable[Cutflow]) -> Iterator[Difference]:
    """Yield the numbers of cutflows that differ."""
    cuts = [
        {(of.name, *place): row for of in cutflows for place, row in results.by_cut(of).items()}
        for cutflows in (one, other)
    ]
    for (name, _, cut, _, dataset), first, second in pairs(*cuts):
        for number, kind in _OF_A_CUT.items():
            values = getattr(first, number, None), getattr(second, number, None)
            if not is_same(*values):
                yield Difference(name, dataset, cut, kind, values)


def _histograms(one: Path, other: Path) -> tuple[list[Difference], list[Difference], list[str]]:
    """Return which histograms differ, in which bins, and which cannot be read."""
    rows = [list(results.loaded(build)) for build in (one, other)]
    damaged = {title for title, _, histogram in chain(*rows) if histogram is None}
    unread = [str(path) for _, path, histogram in chain(*rows) if histogram is None]
    named = [
        {title: histogram for title, _, histogram in of if title not in damaged} for of in rows
    ]
    histograms, bins = list[Difference](), list[Difference]()
    for name, first, second in pairs(*named):
        try:
            for dataset, how, differ in _by_dataset(first, second):
                histograms.append(Difference(name, dataset, "", how))
                largest = sorted(differ, key=lambda row: -abs(row[2][0] - row[2][1]))[:_BINS]
                bins += [
                    Difference(name, dataset, place, kind, (_finite(here), _finite(there)))
                    for place, kind, (here, there) in largest
                ]
        except Exception:  # axes and annotations may be such as no run makes
            unread.append(f"histogram {name}")
    return histograms, bins, unread


def _by_dataset(first: Any, second: Any) -> Iterator[tuple[str, str, list[_Bin]]]:
    """Yield the datasets for which two histograms differ, how, and their bins that do."""
    if problem := only_in_one(first, second):
        yield "", problem, []
        return
    axes = [
        ", ".join(axis.name or axis.label for axis in histogram.axes)
        for histogram in (first, second)
    ]
    if axes[0] != axes[1]:
        yield "", f"the axes have different names: {axes[0]} and {axes[1]}", []
        return
    for dataset, *both in pairs(*map(results.by_dataset, (first, second))):
        how, differ = only_in_one(*both), list[_Bin]()
        if not how:
            how, differ = _differing(*both)
        if how:
            yield dataset, how, differ


def _differing(first: Any, second: Any) -> tuple[str, list[_Bin]]:
    """Return how two histograms differ, and the bins whose sums of weights or errors do."""
    import numpy as np

    if first.axes != second.axes:
        return "the axes have different bins", []
    if first.storage_type != second.storage_type:
        return "only one of the histograms is weighted", []
    differ: list[_Bin] = []
    for method, kind in (("values", "sum of weights"), ("variances", "variance")):
        both = [getattr(histogram, method)(flow=True) for histogram in (first, second)]
        if both[0] is None:  # without weights, there is no other error
            continue
        nothing = _NOTHING * float(np.nanmax(np.abs(both), initial=0.0))
        same = np.isclose(both[0], both[1], rtol=SAME, atol=nothing, equal_nan=True)
        differ += [
            (_bin(first, place), kind, (float(both[0][place]), float(both[1][place])))
            for place in map(tuple, np.argwhere(~same))
        ]
    bins = math.prod(axis.extent for axis in first.axes)
    many = len({place for place, _, _ in differ})
    return f"{many} of {bins} bins differ" if many else "", differ


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _bin(histogram: Any, place: Iterable[int]) -> str:
    """Return how people call a bin: ``met 10 to 15``."""
    parts = []
    for axis, at in zip(histogram.axes, map(int, place), strict=True):
        number = at - (1 if axis.traits.underflow else 0)
        if not 0 <= number < len(axis):
            edge = "underflow" if number < 0 else "overflow"
        elif axis.traits.discrete:
            edge = str(axis.value(number))
        else:
            edge = " to ".join(f"{value:g}" for value in axis.bin(number))
        parts.append(f"{axis.name or axis.label or '?'} {edge}")
    return ", ".join(parts)


def _lacking(one: Facts, other: Facts) -> Iterator[Difference]:
    """Yield the partitions that the results of one of them lack."""
    for (dataset, file, start, stop), first, second in pairs(one.lacking, other.lacking):
        if first is None or second is None:
            lacks = f"missing in the {'first' if second is None else 'second'}"
            yield Difference(file, dataset, failures.span(start, stop), lacks)


# --- what people read -----------------------------------------------------------------------------


def verdict(comparison: Comparison) -> str:
    """Return in a sentence whether the results are the same."""
    compared = ", ".join(
        f"{many} {noun[:-1] if many == 1 else noun}"
        for noun, many in comparison.compared.items()
        if many
    )
    if not any(comparison.compared.values()):
        return "nothing can be compared: there are no results"
    if comparison.is_same:
        return f"the results are the same: {compared} compared"
    *kinds, last = comparison.differing
    differ = f"{', '.join(kinds)} and {last}" if kinds else last
    return f"the results differ in {differ}: {compared} compared"


def sections(comparison: Comparison) -> list[Section]:
    """Return the tables on what differs; those that would be empty are left out."""
    largest = f"For each histogram and dataset, the {_BINS} bins that differ most are listed."
    tables = [
        _table("Partitions that differ", comparison.partitions, "file", "entries"),
        _table("Cutflows that differ", comparison.cutflows, "cutflow", "cut"),
        _table("Histograms that differ", comparison.histograms, "histogram"),
        _table("Bins that differ", comparison.bins, "histogram", "bin", [largest]),
        _table("Skims that differ", comparison.skims, "skim"),
        _table("Plots and other files that differ", comparison.files, "file"),
    ]
    return [section for section in tables if section.rows]


def _table(
    title: str,
    differences: Iterable[Difference],
    name: str,
    where: str = "where",
    notes: Sequence[str] = (),
) -> Section:
    """Return a table of differences, with these headers of the columns for `Difference`'s."""
    rows = [
        {
            name: row.name,
            "dataset": row.dataset,
            where: row.where,
            "how": row.how,
            "first": _number(row.values[0]),
            "second": _number(row.values[1]),
        }
        for row in differences
    ]
    return Section(title.lower(), title, rows, notes)


def _number(value: float | None) -> Number:
    return Number("–" if value is None else f"{value:.12g}")
