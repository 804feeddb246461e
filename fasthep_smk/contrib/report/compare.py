"""What differs between two build folders: their results, and what their rules took.

Results differ by what is in them, bin by bin and cut by cut. That one run took longer than another
is told, but is no difference: no two runs take the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from fasthep_smk.contrib.report import document, measures, results
from fasthep_smk.contrib.report.compare_files import (
    SAME,
    FileDifference,
    SkimDifference,
    differing_files,
    differing_skims,
)
from fasthep_smk.contrib.report.document import Verdict, clean
from fasthep_smk.contrib.report.facts import Facts, gather
from fasthep_smk.contrib.report.measures import RuleUse
from fasthep_smk.contrib.report.numbers import amount, duration, size
from fasthep_smk.contrib.report.results import Cut, Cutflow
from fasthep_smk.contrib.report.tables import Section
from fasthep_smk.storage import failures
from fasthep_smk.util.documents import JsonObject

__all__ = ["Comparison", "as_data", "comparison", "sections", "verdict"]

#: Of a histogram, this part of its largest bin is nothing.
_NOTHING = 1e-12
#: How many bins of a histogram, and of one dataset, are told.
_BINS = 10
#: The numbers of a cut.
_OF_A_CUT: Mapping[str, Callable[[Cut], float]] = {
    "before": lambda cut: cut.before,
    "after": lambda cut: cut.after,
    "weights": lambda cut: cut.weights,
    "error": lambda cut: cut.error,
}
_T = TypeVar("_T")
#: Of the first and of the second build folder; ``None`` where one of them has none.
_Pair: TypeAlias = tuple[_T | None, _T | None]


@dataclass(frozen=True)
class RuleComparison:
    """What the finished jobs of a rule took in both: seconds and bytes, as `measures.RuleUse`."""

    rule: str
    jobs: _Pair[int]
    median: _Pair[float]
    total: _Pair[float]
    cpu_seconds: _Pair[float]
    memory: _Pair[int]
    speed: _Pair[float]


@dataclass(frozen=True)
class CutDifference:
    """A number of a cut that differs: ``what`` is its name in `results.Cut`."""

    name: str
    dataset: str
    selection: str
    cut: str
    what: str
    values: _Pair[float]


@dataclass(frozen=True)
class BinDifference:
    """A bin that differs. ``what`` is ``values``, its sum of weights, or ``variances``."""

    bin: str
    what: str
    values: _Pair[float]


@dataclass(frozen=True)
class HistogramDifference:
    """How a histogram differs, for one dataset where it has an axis of datasets.

    ``problem`` is why its bins cannot be compared, and ``values`` then are the names of its axes,
    if these are why. Else ``differ`` of its ``bins`` do; ``largest`` are those that differ most.
    """

    name: str
    dataset: str
    problem: str
    values: Sequence[Sequence[str]] | None = None
    bins: int | None = None
    differ: int | None = None
    largest: Sequence[BinDifference] = ()


@dataclass(frozen=True)
class PartitionDifference:
    """A partition that the results of one of them lack: the ``first`` or the ``second``."""

    dataset: str
    file: str
    entries: str
    lacks: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What differs between two build folders. ``compared`` is how many of each kind both have."""

    builds: Sequence[str]
    verdicts: Sequence[Verdict]
    rules: Sequence[RuleComparison]
    cutflows: Sequence[CutDifference]
    histograms: Sequence[HistogramDifference]
    partitions: Sequence[PartitionDifference]
    skims: Sequence[SkimDifference]
    files: Sequence[FileDifference]
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
        return [name for name, found in kinds.items() if found]

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
    unread, bins = _histograms(one, other)
    counted, files, unread_files = differing_files(one, other)
    skims, events, unread_skims = differing_skims(one, other)
    found = Comparison(
        builds=[first.build, second.build],
        verdicts=[first.verdict, second.verdict],
        rules=_rules(*both),
        cutflows=[*_cutflows(first.cutflows, second.cutflows)],
        histograms=bins,
        partitions=[*_lacking(*both)],
        skims=events,
        files=files,
        unread=[*unread, *unread_skims, *unread_files],
        compared={
            "cutflows": len({row.name for row in (*first.cutflows, *second.cutflows)}),
            "histograms": len({row.name for row in (*first.histograms, *second.histograms)}),
            "skims": skims,
            **counted,
        },
    )
    return document.cleaned(found)


def as_data(found: Comparison) -> JsonObject:
    """Return a comparison as ``fasthep-smk compare --json`` prints it."""
    data = asdict(found)
    data["histograms"] = [
        {name: value for name, value in row.items() if value not in (None, ())}
        for row in data["histograms"]
    ]
    return {**data, "same": found.is_same}


def _rules(one: Facts, other: Facts) -> list[RuleComparison]:
    """Return what each rule took in both, that first which has got slowest."""
    rows, seconds = _by_rule(one), _cpu_seconds(one)
    other_rows, other_seconds = _by_rule(other), _cpu_seconds(other)
    found = []
    for rule in {**rows, **other_rows}:
        pair = rows.get(rule), other_rows.get(rule)
        found.append(
            RuleComparison(
                rule,
                jobs=_of_both(pair, lambda row: row.jobs),
                median=_of_both(pair, lambda row: row.median),
                total=_of_both(pair, lambda row: row.total),
                cpu_seconds=(seconds.get(rule), other_seconds.get(rule)),
                memory=_of_both(pair, lambda row: row.memory),
                speed=_of_both(pair, lambda row: row.speed),
            )
        )
    return sorted(found, key=lambda row: (row.total[0] or 0) - (row.total[1] or 0))


def _by_rule(facts: Facts) -> dict[str, RuleUse]:
    """Return what the finished jobs of each rule took, in whatever pool."""
    return {row.rule: row for row in measures.rules(replace(job, pool="") for job in facts.done)}


def _cpu_seconds(facts: Facts) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for job in facts.done:
        seconds[job.rule] = seconds.get(job.rule, 0) + job.cpu
    return seconds


def _of_both(pair: _Pair[RuleUse], number: Callable[[RuleUse], _T | None]) -> _Pair[_T]:
    one, other = pair
    return None if one is None else number(one), None if other is None else number(other)


def _cutflows(one: Iterable[Cutflow], other: Iterable[Cutflow]) -> Iterator[CutDifference]:
    """Yield the numbers of cutflows that differ."""
    rows = [_by_cut(one), _by_cut(other)]
    for place in dict.fromkeys(chain(*rows)):
        first, second = (row.get(place) for row in rows)
        for what, number in _OF_A_CUT.items():
            before = None if first is None else float(number(first))
            after = None if second is None else float(number(second))
            if not _is_same(before, after):
                yield CutDifference(*place[:4], what, (before, after))


def _by_cut(cutflows: Iterable[Cutflow]) -> dict[tuple[str, str, str, str, int], Cut]:
    """Return the rows of cutflows by what they are of; a cut may stand there twice."""
    found: dict[tuple[str, str, str, str, int], Cut] = {}
    for cutflow in cutflows:
        seen: Counter[tuple[str, str, str]] = Counter()
        for row in cutflow.rows:
            place = (row.dataset, row.selection, row.cut)
            found[cutflow.name, *place, seen[place]] = row
            seen[place] += 1
    return found


def _is_same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return one == other or math.isclose(one, other, rel_tol=SAME) or (one != one and other != other)


def _histograms(one: Path, other: Path) -> tuple[list[str], list[HistogramDifference]]:
    """Return which histograms cannot be read, and of the others, what differs."""
    loaded = [
        {
            (title, str(path.relative_to(build))): found
            for title, path, found in results.loaded(build)
        }
        for build in (one, other)
    ]
    unread = [
        str(build / file)
        for build, found in zip((one, other), loaded, strict=True)
        for (_, file), histogram in found.items()
        if histogram is None
    ]
    named = [{title: histogram for (title, _), histogram in found.items()} for found in loaded]
    differ = []
    for name in dict.fromkeys(chain(*named)):
        pair = [found.get(name) for found in named]
        if all(name in found and one is None for found, one in zip(named, pair, strict=True)):
            continue
        if missing := [place for place, found in enumerate(named) if name not in found]:
            where = ("first", "second")[1 - missing[0]]
            differ.append(HistogramDifference(name, "", f"only in the {where}"))
        elif None not in pair:
            try:
                differ += [*_bins(name, *pair)]
            except Exception:  # axes and annotations may be such as no run makes
                unread.append(f"histogram {name}")
    return unread, differ


def _bins(name: str, one: Any, other: Any) -> Iterator[HistogramDifference]:
    """Yield for each dataset the bins that differ, or why they cannot be compared."""
    axes = [[axis.name or axis.label for axis in found.axes] for found in (one, other)]
    split = [results.by_dataset(found) for found in (one, other)]
    if axes[0] != axes[1]:
        yield HistogramDifference(name, "", "the axes have other names", values=axes)
        return
    for dataset in dict.fromkeys(chain(*split)):
        pair = [found.get(dataset) for found in split]
        if None in pair:
            where = ("first", "second")[pair.index(None) ^ 1]
            yield HistogramDifference(name, dataset, f"only in the {where}")
        elif pair[0].axes != pair[1].axes:  # type: ignore[union-attr]
            yield HistogramDifference(name, dataset, "the axes have other bins")
        elif pair[0].storage_type != pair[1].storage_type:  # type: ignore[union-attr]
            yield HistogramDifference(name, dataset, "only one of them is of weights")
        elif found := [row for _, row in sorted(_differing(*pair), key=lambda one: -one[0])]:
            many = math.prod(axis.extent for axis in pair[0].axes)  # type: ignore[union-attr]
            yield HistogramDifference(
                name,
                dataset,
                problem="",
                bins=many,
                differ=len({row.bin for row in found}),
                largest=found[:_BINS],
            )


def _differing(one: Any, other: Any) -> Iterator[tuple[float, BinDifference]]:
    """Yield the bins whose sums of weights, or errors of these, differ, and by how much."""
    import numpy as np

    for what in ("values", "variances"):
        first, second = (getattr(found, what)(flow=True) for found in (one, other))
        if first is None or second is None:  # without weights, there is no other error
            continue
        nothing = _NOTHING * max(
            float(np.nanmax(np.abs(all_), initial=0.0)) for all_ in (first, second)
        )
        same = np.isclose(first, second, rtol=SAME, atol=nothing, equal_nan=True)
        for place in np.argwhere(~same):
            here, there = (float(all_[tuple(place)]) for all_ in (first, second))
            values = _finite(here), _finite(there)
            yield abs(here - there), BinDifference(_bin(one, place), what, values)


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


def _lacking(one: Facts, other: Facts) -> Iterator[PartitionDifference]:
    """Yield the partitions that the results of one of them lack."""
    lost = [{found.place: found for found in facts.lacking} for facts in (one, other)]
    for place in dict.fromkeys(chain(*lost)):
        if (place in lost[0]) != (place in lost[1]):
            dataset, file, start, stop = place
            where = "first" if place in lost[0] else "second"
            entries = failures.span(start, stop)
            yield PartitionDifference(dataset, file, entries, lacks=where)


# --- what people read -----------------------------------------------------------------------------


def verdict(found: Comparison) -> str:
    """Return in a sentence whether the results are the same."""
    compared = ", ".join(
        f"{many} {what[:-1] if many == 1 else what}"
        for what, many in found.compared.items()
        if many
    )
    if not any(found.compared.values()):
        return "nothing can be compared: there are no results"
    if found.is_same:
        return f"the results are the same: {compared} compared"
    *kinds, last = found.differing
    differ = f"{', '.join(kinds)} and {last}" if kinds else last
    return f"the results differ in {differ}: {compared} compared"


def sections(found: Comparison) -> list[Section]:
    """Return the tables on what differs; those that would be empty are left out."""
    tables = [
        _shown_partitions(found.partitions),
        _shown_cutflows(found.cutflows),
        *_shown_histograms(found.histograms),
        _shown_skims(found.skims),
        _shown_files(found.files),
        _shown_rules(found.rules),
    ]
    return [section for section in tables if section.rows]


def _shown_partitions(found: Iterable[PartitionDifference]) -> Section:
    headers = ["dataset", "file", "entries", "lacks"]
    rows = [[row.dataset, row.file, row.entries, row.lacks] for row in found]
    return Section("partitions", "Partitions that one of them lacks", headers, rows)


def _shown_cutflows(found: Iterable[CutDifference]) -> Section:
    names = {"before": "events before", "after": "events after", "weights": "sum of weights"}
    rows = [
        [
            row.name,
            row.dataset,
            row.cut,
            names.get(row.what, "± of the sum"),
            *map(_number, row.values),
        ]
        for row in found
    ]
    headers = ["cutflow", "dataset", "cut", "what", "first", "second"]
    title = "Cutflows that differ"
    return Section("cutflows", title, headers, rows, right=frozenset(headers[4:]))


def _shown_histograms(found: Sequence[HistogramDifference]) -> Iterator[Section]:
    rows = [
        [row.name, row.dataset, row.problem or f"{row.differ} of {row.bins} bins differ"]
        for row in found
    ]
    headers = ["histogram", "dataset", "how"]
    yield Section("histograms", "Histograms that differ", headers, rows)
    rows = [
        [
            row.name,
            row.dataset,
            one.bin,
            "sum of weights" if one.what == "values" else "variance",
            *map(_number, one.values),
        ]
        for row in found
        for one in row.largest
    ]
    headers = ["histogram", "dataset", "bin", "what", "first", "second"]
    notes = [f"Of each histogram and dataset, the {_BINS} that differ most."]
    yield Section("bins", "Bins that differ", headers, rows, notes, frozenset(headers[4:]))


def _shown_skims(found: Iterable[SkimDifference]) -> Section:
    rows = [[row.name, row.dataset, row.problem] for row in found]
    return Section("skims", "Skims that differ", ["skim", "dataset", "how"], rows)


def _shown_files(found: Iterable[FileDifference]) -> Section:
    rows = [[row.file, row.problem] for row in found]
    return Section("files", "Plots and other files that differ", ["file", "how"], rows)


def _shown_rules(found: Iterable[RuleComparison]) -> Section:
    rows = [
        [
            row.rule,
            _both(amount, row.jobs),
            _both(duration, row.median),
            _both(duration, row.total),
            _both(duration, row.cpu_seconds),
            _both(size, row.memory),
            _both(amount, row.speed),
            _change(*row.total),
        ]
        for row in found
    ]
    headers = ["rule", "jobs", "median", "together", "on CPUs", "memory", "events/s", "change"]
    notes = [
        "What the jobs of each rule took, first → second; those at the top have got slowest. "
        "Change: of the run time of all its jobs together."
    ]
    title = "Rules"
    return Section("rules", title, headers, rows, notes, frozenset(headers[1:]))


def _both(show: Callable[[_T | None], str], pair: _Pair[_T]) -> str:
    return f"{show(pair[0])} → {show(pair[1])}"


def _change(one: float | None, other: float | None) -> str:
    if not one or other is None:
        return "–"
    return f"{(other / one - 1) * 100:+.0f} %"


def _number(value: float | None) -> str:
    return "–" if value is None else clean(f"{value:.12g}")
