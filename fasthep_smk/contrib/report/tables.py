"""The tables of the report on a build folder, of which page and terminal show the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from fasthep_smk.contrib.report.document import Report
from fasthep_smk.contrib.report.measures import PoolUse, Requested
from fasthep_smk.contrib.report.numbers import (
    amount,
    decimal,
    duration,
    efficiency,
    percent,
    size,
    when,
)
from fasthep_smk.storage import failures
from fasthep_smk.util.units import about_bytes

__all__ = ["Section", "sections"]

#: Seconds; of a shorter run there is nothing to win.
_SHORT = 10


@dataclass(frozen=True)
class Section:
    """A table of the report. ``notes`` are lines below its title; numbers stand on the right.

    ``links`` are columns whose cells lead to files: the path of each in the build folder.
    """

    name: str
    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    right: frozenset[str] = frozenset()
    links: Mapping[str, Sequence[str]] = field(default_factory=dict)


def sections(report: Report) -> list[Section]:
    """Return the tables of a report; those that would be empty are left out."""
    found = [
        _failed(report),
        _missing(report),
        *_cutflows(report),
        _histograms(report),
        _skims(report),
        _files(report),
        _measured(report),
        _rules(report),
        _pools(report),
        _requested(report),
        _critical(report),
        _slowest(report),
        _reasons(report),
        *_provenance(report),
    ]
    return [section for section in found if section.rows]


def _failed(report: Report) -> Section:
    rows = [
        [
            one.rule,
            one.dataset,
            f"{one.file} ({one.entries})" if one.file else "",
            one.problem,
            one.where,
            one.rerun,
        ]
        for one in report.failures
    ]
    more = report.failed - len(rows)
    notes = [f"{more} more failed: 'fasthep-smk status' counts them"] if more > 0 else []
    headers = ["rule", "dataset", "file", "cause", "where", "run it alone"]
    return Section("failures", "Failed jobs", headers, rows, notes)


def _missing(report: Report) -> Section:
    rows = [
        [
            one.dataset,
            one.file,
            failures.span(one.start, one.stop),
            amount(one.events),
            one.reason,
        ]
        for one in report.missing
    ]
    headers = ["dataset", "file", "entries", "events", "what went wrong"]
    title = "Partitions that the results lack"
    return Section("missing", title, headers, rows, right=frozenset({"events"}))


def _cutflows(report: Report) -> list[Section]:
    headers = ["dataset", "cut", "events before", "after", "kept", "of all", "sum of weights", "±"]
    found = []
    for number, one in enumerate(report.cutflows):
        rows = [
            [
                row.dataset,
                row.cut,
                amount(row.before),
                amount(row.after),
                efficiency(row.share),
                efficiency(row.total),
                decimal(row.weights),
                decimal(row.error),
            ]
            for row in one.rows
        ]
        title = f"Cutflow {one.name}"
        found.append(Section(f"cutflow-{number}", title, headers, rows, right=_all_but(headers, 2)))
    return found


def _histograms(report: Report) -> Section:
    headers = [
        "histogram", "dataset", "bins", "effective entries", "sum of weights", "±", "of it outside",
    ]  # fmt: skip
    rows = [
        [
            one.name,
            one.dataset,
            one.bins,
            decimal(one.entries),
            decimal(one.sum),
            decimal(one.error),
            decimal(one.outside),
        ]
        for one in report.histograms
    ]
    return Section(
        "histograms",
        "Histograms",
        headers,
        rows,
        ["Sums are with under- and overflow; 'outside' is these alone."],
        frozenset(headers[3:7]),
        {"histogram": [one.file for one in report.histograms]},
    )


def _skims(report: Report) -> Section:
    rows = [
        [
            one.name,
            one.dataset,
            amount(one.events),
            amount(len(one.files)),
            about_bytes(one.size),
        ]
        for one in report.skims
    ]
    headers = ["skim", "dataset", "events", "files", "size"]
    notes = ["Events that were written; the files themselves are below."]
    return Section("skims", "Skims", headers, rows, notes, _all_but(headers, 2))


def _files(report: Report) -> Section:
    rows = [[one.file, about_bytes(one.size)] for one in report.files]
    links = {"file": [one.file for one in report.files]}
    return Section("files", "Files", ["file", "size"], rows, (), frozenset({"size"}), links)


def _measured(report: Report) -> Section:
    rows = [[one.stage, one.part, one.what, PurePath(one.file).name] for one in report.measured]
    links = {"flame graph": [one.file for one in report.measured]}
    headers = ["stage", "partition", "what", "flame graph"]
    return Section("measured", "Flame graphs of stages", headers, rows, links=links)


def _rules(report: Report) -> Section:
    headers = [
        "rule", "pool", "jobs", "earlier", "retries", "queue", "shortest", "median", "longest",
        "CPU", "memory", "asked", "read", "written", "events/s",
    ]  # fmt: skip
    rows = [
        [
            row.rule,
            row.pool,
            amount(row.jobs),
            amount(row.earlier),
            amount(row.retries),
            duration(row.wait),
            duration(row.least),
            duration(row.median),
            duration(row.most),
            percent(row.cpu),
            size(row.memory),
            size(row.asked_memory),
            size(row.read),
            size(row.written),
            amount(row.speed),
        ]
        for row in report.rules
    ]
    hidden = [
        name
        for name in ("earlier", "retries", "queue", "read", "written", "events/s")
        if all(row[headers.index(name)] in ("0", "–") for row in rows)
    ]
    kept = [number for number, name in enumerate(headers) if name not in hidden]
    return Section(
        "rules",
        "Rules and pools",
        [headers[number] for number in kept],
        [[row[number] for number in kept] for row in rows],
        [
            "All jobs that are done. Earlier: those of them that ran in an earlier run. "
            "Queue: median wait in the batch system. Memory: the most that one job held.",
            "CPU: seconds on CPUs as a share of run time times cpus. "
            "Read, written: bytes of all calls that do so. Events/s: in one job, while it runs.",
        ],
        _all_but(headers, 2),
    )


def _requested(report: Report) -> Section:
    shown: Mapping[str, Callable[[float], str]] = {
        "memory": about_bytes, "time": duration, "cores": _cores,
    }  # fmt: skip
    rows = [
        [
            one.pool,
            one.amount,
            amount(one.jobs),
            shown[one.amount](one.asked),
            shown[one.amount](one.used),
            one.rule,
            _advice(one, shown[one.amount]),
        ]
        for one in report.requested
    ]
    headers = ["pool", "what", "jobs", "asked", "most used", "by rule", "advice"]
    note = (
        "Advised is what 'fasthep-smk sizes' proposes: the most that one job took, and a margin "
        "that falls as jobs are done. Of cores: as many as were busy, on average over a job. Only "
        "where three jobs or more have asked for the same, none died for want of it, and a fifth "
        "or more is saved."
    )
    return Section(
        "requested",
        "Asked for and used",
        headers,
        rows,
        [note],
        frozenset(("jobs", "asked", "most used")),
    )


def _cores(value: float) -> str:
    many = f"{value:.1f}".removesuffix(".0")
    return f"{many} core{'' if many == '1' else 's'}"


#: A limit that was reached for this share of the time while jobs waited may be raised; of cores or
#: workers of which less than this share was busy, there are enough.
_FULL, _IDLE = 0.5, 0.5


def _pools(report: Report) -> Section:
    headers = ["pool", "limit", "most", "mean", "waiting", "full", "advice", "why jobs waited"]
    rows = [
        [
            row.pool or ("all, in cores" if row.unit == "cores" else ""),
            amount(row.limit),
            amount(row.most),
            f"{row.mean:.1f}",
            f"{row.waiting:.1f}",
            percent(row.full),
            _limit_advice(row),
            ", ".join(f"{reason} ({amount(many)})" for reason, many in row.reasons.items()),
        ]
        for row in report.pools
    ]
    notes = [
        "Jobs of the last run that ran at a time in each pool, and that could have run and waited: "
        "means over the time in which any did. Full: the share of that time in which as many ran "
        "as may."
    ]
    if any(row.reasons for row in report.pools):
        notes.append(
            "Why jobs waited: what the batch system said when it was asked, every half a minute, "
            "and how many waited for that at most."
        )
    else:
        headers, rows = headers[:-1], [row[:-1] for row in rows]
    right = frozenset(("limit", "most", "mean", "waiting", "full"))
    return Section("pools", "Pools and their limits", headers, rows, notes, right)


def _limit_advice(row: PoolUse) -> str:
    limit, full = row.limit, row.full
    if limit is None or full is None:
        return "–"
    if full >= _FULL and row.waiting >= 1:
        return (
            "more may end the run sooner" if row.unit == "jobs" else "more cores may end it sooner"
        )
    if limit > 1 and row.most <= limit * _IDLE:
        return f"{amount(row.most)} would have done"
    return "–"


def _advice(one: Requested, shown: Callable[[float], str]) -> str:
    if one.advised is None:
        return "–"
    return f"ask for {shown(one.advised)}: saves {percent(one.saved)}"


def _critical(report: Report) -> Section:
    steps = report.critical_path
    ran, waited = sum(step.seconds for step in steps), sum(step.waited for step in steps)
    rows = [[step.rule, step.key, duration(step.waited), duration(step.seconds)] for step in steps]
    notes = [
        "Each of these jobs needed the one above it, which was the last of what it needed to end.",
        f"Its jobs ran {duration(ran)} and waited {duration(waited)} that they could have run.",
    ]
    if waited > max(ran, _SHORT):
        notes[-1] += _waited_for(report)
    elif ran > max(waited, _SHORT):
        notes[-1] += " To end sooner, these jobs have to be faster, or cut into smaller ones."
    headers = ["rule", "job", "waited", "ran"]
    ended = report.verdict.state in ("finished", "partial")
    title = "What set the end of the run" if ended else "What the job that ended last needed"
    return Section("critical", title, headers, rows, notes, frozenset({"waited", "ran"}))


def _waited_for(report: Report) -> str:
    """Return what would spare the jobs on the critical path their waiting."""
    full = any((row.full or 0) >= _FULL for row in report.pools)
    if full or report.run is None or report.run["system"] == "local":
        return " More cores or workers at a time may end it sooner."
    return (
        " No pool was full: they waited for the batch system. Pilots start the next job at once, "
        "and larger jobs wait less often."
    )


def _slowest(report: Report) -> Section:
    rows = [
        [
            one.rule,
            one.key,
            one.host,
            duration(one.seconds),
            size(one.memory),
            amount(one.events),
        ]
        for one in report.slowest
    ]
    headers = ["rule", "job", "host", "ran", "memory", "events"]
    return Section("slowest", "Longest jobs", headers, rows, right=_all_but(headers, 3))


def _reasons(report: Report) -> Section:
    rows = [
        [rule, amount(many), why]
        for rule, reasons in report.reasons.items()
        for why, many in reasons.items()
    ]
    kept = report.earlier
    notes = [
        f"{amount(kept)} of the jobs that are done ran in an earlier run, and count still."
        if kept
        else "No job of an earlier run counts."
    ]
    if parts := report.in_part:
        notes.append(
            f"{amount(parts)} of those that ran did so in part, and have adopted the rest."
        )
    title = "What ran in the last run, and why"
    return Section("reasons", title, ["rule", "jobs", "why"], rows, notes, frozenset({"jobs"}))


def _provenance(report: Report) -> list[Section]:
    run = report.run
    rows = [["build folder", report.build]]
    if run:
        took = "" if run["ended"] is None else f", {duration(run['ended'] - run['started'])}"
        rows += [
            ["command", run["command"]],
            ["started in", run["folder"]],
            ["last run", f"{when(run['started'])}{took}"],
            ["site", f"{run['site']} ({run['system']})"],
            *(["version", f"{name} {version}"] for name, version in run["versions"].items()),
            *(["SHA-256", f"{digest}  {path}"] for path, digest in run["digests"].items()),
        ]
    rows.append(["this report", when(report.made)])
    inputs = [
        [
            one.file,
            "–" if one.size is None else f"{amount(one.size)} B",
            _modified(one.time_ns),
        ]
        for one in report.inputs
    ]
    headers = ["file", "size", "modified"]
    return [
        Section("provenance", "Provenance", ["", ""], rows),
        Section("inputs", "Input files", headers, inputs, right=frozenset({"size"})),
    ]


def _modified(nanoseconds: int | None) -> str:
    return "–" if nanoseconds is None else when(nanoseconds / 1e9)


def _all_but(headers: Sequence[str], number: int) -> frozenset[str]:
    return frozenset(headers[number:])
