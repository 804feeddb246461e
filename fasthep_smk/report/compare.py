"""What differs between two build folders: their results, and what their rules took.

Results differ by what is in them, bin by bin and cut by cut. That one run took longer than another
is told, but is no difference: no two runs take the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

from fasthep_smk.report import document, measures, results
from fasthep_smk.report.compare_files import SAME, differing_files, differing_skims
from fasthep_smk.report.document import clean
from fasthep_smk.report.facts import Facts, gather
from fasthep_smk.report.numbers import amount, duration
from fasthep_smk.report.results import Cut, Cutflow
from fasthep_smk.report.tables import Section
from fasthep_smk.storage import failures
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.units import about_bytes

__all__ = ["as_data", "sections", "verdict"]

#: Of a histogram, this part of its largest bin is nothing.
_NOTHING = 1e-12
#: How many bins of a histogram, and of one dataset, are told.
_BINS = 10
#: What may differ.
_KINDS = ("partitions", "cutflows", "histograms", "skims", "files")
_NAMES = {"files": "plots or other files"}
#: The numbers of a cut.
_OF_A_CUT: Mapping[str, Callable[[Cut], float]] = {
    "before": lambda cut: cut.before,
    "after": lambda cut: cut.after,
    "weights": lambda cut: cut.weights,
    "error": lambda cut: cut.error,
}
_NUMBERS = ("median", "total", "cpu_seconds", "memory", "speed")


def as_data(one: Path, other: Path) -> JsonObject:
    """Return what differs between two build folders, as plain data; numbers are in pairs.

    Raises:
        Findings: the task tables of one cannot be read.
    """
    both = gather(one), gather(other)
    told = [document.report_on(facts) for facts in both]
    unread, bins = _histograms(one, other)
    counted, files, unread_files = differing_files(one, other)
    skims, events, unread_skims = differing_skims(one, other)
    found: JsonObject = {
        "builds": [report.build for report in told],
        "verdicts": [asdict(report.verdict) for report in told],
        "rules": _rules(*both),
        "cutflows": [*_cutflows(*(report.cutflows for report in told))],
        "histograms": bins,
        "partitions": [*_lacking(*both)],
        "skims": events,
        "files": files,
        "unread": [*unread, *unread_skims, *unread_files],
        "compared": {
            "cutflows": len({row.name for report in told for row in report.cutflows}),
            "histograms": len({row.name for report in told for row in report.histograms}),
            "skims": skims,
        }
        | counted,
    }
    found["same"] = any(found["compared"].values()) and not any(found[name] for name in _KINDS)
    return document.cleaned(found)


def _rules(one: Facts, other: Facts) -> list[JsonObject]:
    """Return what each rule took in both, that first which has got slowest."""
    rows = [_by_rule(facts) for facts in (one, other)]
    found = []
    for rule in dict.fromkeys(chain(*rows)):
        pair = [row.get(rule, {}) for row in rows]
        numbers = {name: [row.get(name) for row in pair] for name in ("jobs", *_NUMBERS)}
        found.append({"rule": rule, **numbers})
    return sorted(found, key=lambda row: (row["total"][0] or 0) - (row["total"][1] or 0))


def _by_rule(facts: Facts) -> dict[str, JsonObject]:
    """Return what the finished jobs of each rule took, in whatever pool."""
    seconds: Counter[str] = Counter()
    for job in facts.done:
        seconds[job.rule] += job.cpu  # type: ignore[assignment]
    rows = measures.rules(replace(job, pool="") for job in facts.done)
    return {row.rule: {**vars(row), "cpu_seconds": seconds[row.rule]} for row in rows}


def _cutflows(one: Iterable[Cutflow], other: Iterable[Cutflow]) -> Iterator[JsonObject]:
    """Yield the numbers of cutflows that differ."""
    rows = [_by_cut(one), _by_cut(other)]
    for place in dict.fromkeys(chain(*rows)):
        pair = [row.get(place) for row in rows]
        name, dataset, selection, cut, _ = place
        where = {"name": name, "dataset": dataset, "selection": selection, "cut": cut}
        for what, number in _OF_A_CUT.items():
            values = [None if row is None else float(number(row)) for row in pair]
            if not _is_same(*values):
                yield {**where, "what": what, "values": values}


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


def _histograms(one: Path, other: Path) -> tuple[list[str], list[JsonObject]]:
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
            differ.append({"name": name, "dataset": "", "problem": f"only in the {where}"})
        elif None not in pair:
            differ += [{"name": name, **row} for row in _bins(*pair)]
    return unread, differ


def _bins(one: Any, other: Any) -> Iterator[JsonObject]:
    """Yield for each dataset the bins that differ, or why they cannot be compared."""
    axes = [[axis.name or axis.label for axis in found.axes] for found in (one, other)]
    split = [results.by_dataset(found) for found in (one, other)]
    if axes[0] != axes[1]:
        yield {"dataset": "", "problem": "the axes have other names", "values": axes}
        return
    for dataset in dict.fromkeys(chain(*split)):
        pair = [found.get(dataset) for found in split]
        if None in pair:
            where = ("first", "second")[pair.index(None) ^ 1]
            yield {"dataset": dataset, "problem": f"only in the {where}"}
        elif pair[0].axes != pair[1].axes:  # type: ignore[union-attr]
            yield {"dataset": dataset, "problem": "the axes have other bins"}
        elif pair[0].storage_type != pair[1].storage_type:  # type: ignore[union-attr]
            yield {"dataset": dataset, "problem": "only one of them is of weights"}
        elif found := list(_differing(*pair)):
            found.sort(key=lambda row: -row.pop("difference"))
            many = math.prod(axis.extent for axis in pair[0].axes)  # type: ignore[union-attr]
            yield {
                "dataset": dataset,
                "problem": "",
                "bins": many,
                "differ": len({row["bin"] for row in found}),
                "largest": found[:_BINS],
            }


def _differing(one: Any, other: Any) -> Iterator[JsonObject]:
    """Yield the bins whose sums of weights, or errors of these, differ."""
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
            values = [float(all_[tuple(place)]) for all_ in (first, second)]
            yield {
                "bin": _bin(one, place),
                "what": what,
                "values": [value if math.isfinite(value) else None for value in values],
                "difference": abs(values[0] - values[1]),
            }


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


def _lacking(one: Facts, other: Facts) -> Iterator[JsonObject]:
    """Yield the partitions that the results of one of them lack."""
    lost = [{found.place: found for found in facts.lacking} for facts in (one, other)]
    for place in dict.fromkeys(chain(*lost)):
        if (place in lost[0]) != (place in lost[1]):
            dataset, file, start, stop = place
            where = "first" if place in lost[0] else "second"
            entries = failures.span(start, stop)
            yield {"dataset": dataset, "file": file, "entries": entries, "lacks": where}


# --- what people read -----------------------------------------------------------------------------


def verdict(data: JsonObject) -> str:
    """Return in a sentence whether the results are the same."""
    compared = ", ".join(
        f"{many} {what[:-1] if many == 1 else what}"
        for what, many in data["compared"].items()
        if many
    )
    if not any(data["compared"].values()):
        return "nothing can be compared: there are no results"
    if data["same"]:
        return f"the results are the same: {compared} compared"
    *kinds, last = [_NAMES.get(what, what) for what in _KINDS if data[what]]
    differ = f"{', '.join(kinds)} and {last}" if kinds else last
    return f"the results differ in {differ}: {compared} compared"


def sections(data: JsonObject) -> list[Section]:
    """Return the tables on what differs; those that would be empty are left out."""
    found = [_shown_partitions(data), _shown_cutflows(data), *_shown_histograms(data)]
    found += [_shown_skims(data), _shown_files(data), _shown_rules(data)]
    return [section for section in found if section.rows]


def _shown_partitions(data: JsonObject) -> Section:
    headers = ["dataset", "file", "entries", "lacks"]
    rows = [[row[name] for name in headers] for row in data["partitions"]]
    return Section("partitions", "Partitions that one of them lacks", headers, rows)


def _shown_cutflows(data: JsonObject) -> Section:
    names = {"before": "events before", "after": "events after", "weights": "sum of weights"}
    rows = [
        [
            row["name"],
            row["dataset"],
            row["cut"],
            names.get(row["what"], "± of the sum"),
            *map(_number, row["values"]),
        ]
        for row in data["cutflows"]
    ]
    headers = ["cutflow", "dataset", "cut", "what", "first", "second"]
    title = "Cutflows that differ"
    return Section("cutflows", title, headers, rows, right=frozenset(headers[4:]))


def _shown_histograms(data: JsonObject) -> Iterator[Section]:
    rows = [
        [
            row["name"],
            row["dataset"],
            row["problem"] or f"{row['differ']} of {row['bins']} bins differ",
        ]
        for row in data["histograms"]
    ]
    headers = ["histogram", "dataset", "how"]
    yield Section("histograms", "Histograms that differ", headers, rows)
    rows = [
        [
            row["name"],
            row["dataset"],
            one["bin"],
            "sum of weights" if one["what"] == "values" else "variance",
            *map(_number, one["values"]),
        ]
        for row in data["histograms"]
        for one in row.get("largest", ())
    ]
    headers = ["histogram", "dataset", "bin", "what", "first", "second"]
    notes = [f"Of each histogram and dataset, the {_BINS} that differ most."]
    yield Section("bins", "Bins that differ", headers, rows, notes, frozenset(headers[4:]))


def _shown_skims(data: JsonObject) -> Section:
    rows = [[row["name"], row["dataset"], row["problem"]] for row in data["skims"]]
    return Section("skims", "Skims that differ", ["skim", "dataset", "how"], rows)


def _shown_files(data: JsonObject) -> Section:
    rows = [[row["file"], row["problem"]] for row in data["files"]]
    return Section("files", "Plots and other files that differ", ["file", "how"], rows)


def _shown_rules(data: JsonObject) -> Section:
    shown: Mapping[str, Callable[[Any], str]] = {
        "jobs": amount,
        "median": duration,
        "total": duration,
        "cpu_seconds": duration,
        "memory": lambda value: "–" if value is None else about_bytes(value),
        "speed": amount,
    }
    rows = []
    for row in data["rules"]:
        cells = [f"{show(row[name][0])} → {show(row[name][1])}" for name, show in shown.items()]
        rows.append([row["rule"], *cells, _change(*row["total"])])
    headers = ["rule", "jobs", "median", "together", "on CPUs", "memory", "events/s", "change"]
    notes = [
        "What the jobs of each rule took, first → second; those at the top have got slowest. "
        "Change: of the run time of all its jobs together."
    ]
    title = "Rules"
    return Section("rules", title, headers, rows, notes, frozenset(headers[1:]))


def _change(one: float | None, other: float | None) -> str:
    if not one or other is None:
        return "–"
    return f"{(other / one - 1) * 100:+.0f} %"


def _number(value: float | None) -> str:
    return "–" if value is None else clean(f"{value:.12g}")
