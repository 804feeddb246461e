"""The tables of the report on a build folder, of which page and terminal show the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

from fasthep_smk.contrib.report.document import Report
from fasthep_smk.contrib.report.numbers import (
    Number,
    amount,
    change,
    decimal,
    duration,
    percent,
    size,
    when,
)
from fasthep_smk.contrib.report.results import by_cut, compared, title
from fasthep_smk.contrib.report.rules import RuleFacts
from fasthep_smk.storage import failures

_KEPT = (
    "Each cell shows the events after the cut, as a number, as a share of the events before this "
    "cut, and as a share of the events before all cuts."
)
_OLDER = "These variations come from an earlier run, and are not compared with the others: "
_CHANGES = "Columns of variations show the change of the sum of weights relative to nominal."


class Link(str):
    """A cell that leads to a file, whose path in the build folder is ``path``."""

    path: str

    def __new__(cls, text: str, path: str) -> Self:
        cell = super().__new__(cls, text)
        cell.path = path
        return cell


@dataclass(frozen=True)
class Section:
    """A table of the report: rows with their cells by the headers of columns, the same in each.

    ``notes`` are lines below its title.
    """

    name: str
    title: str
    rows: Sequence[Mapping[str, str]]
    notes: Sequence[str] = ()

    @property
    def columns(self) -> dict[str, bool]:
        """The headers of the columns in which anything stands, and whether that is numbers."""
        return {
            header: all(isinstance(row[header], Number) for row in self.rows)
            for header in (self.rows[0] if self.rows else ())
            if any(row[header] not in ("", "–") for row in self.rows)
        }


def sections(report: Report) -> list[Section]:
    """Return the tables of a report; those that would be empty are left out."""
    return list(chain(*groups(report)))


def groups(report: Report) -> list[list[Section]]:
    """Return the same in four groups: a page has plots, charts and each rule between them."""
    every = [
        [_failed(report), _missing(report), *_cutflows(report)],
        _results(report),
        [_rules(report), _reasons(report)],
        _provenance(report),
    ]
    return [[section for section in group if section.rows] for group in every]


def _failed(report: Report) -> Section:
    rows = [
        {
            "rule": job.rule,
            "dataset": job.dataset,
            "file": f"{job.file} ({job.entries})" if job.file else "",
            "cause": job.problem,
            "at": job.at,
            "where": job.where,
            "memory": f"{size(job.memory)} asked for, {size(job.used)} used"
            if job.memory or job.used
            else "",
            "fix": job.fix,
            "run it alone": job.rerun,
            "log": Link(job.log, job.log),
        }
        for job in report.failures
    ]
    more = report.failed - len(rows)
    notes = [f"{more} more jobs failed: 'fasthep-smk status' lists them"] if more > 0 else []
    return Section("failures", "Failed jobs", rows, notes)


def _missing(report: Report) -> Section:
    rows = [
        {
            "dataset": part["dataset"],
            "file": part["file"],
            "entries": failures.span(part["start"], part["stop"]),
            "events": amount(part["events"]),
            "what went wrong": part["reason"],
        }
        for part in report.missing
    ]
    return Section("missing", "Partitions missing in the results", rows)


def _by_variation(rows: Iterable[Any], place: Callable[[Any], Any]) -> dict[Any, dict[str, Any]]:
    """Return results that have the same place by their variations: the nominal first."""
    by_place: dict[Any, dict[str, Any]] = {}
    for row in rows:
        by_place.setdefault(place(row), {})[row.variation] = row
    return by_place


def _notes(report: Report, varied: object) -> list[str]:
    """Return what is said of the columns of variations, and of those that have none."""
    older = ", ".join(name or "nominal" for name in report.older)
    return [*([_CHANGES] if varied else []), *([f"{_OLDER}{older}."] if older else [])]


def _cutflows(report: Report) -> list[Section]:
    """Return two tables on each cutflow: events of all datasets, and weights in all variations."""
    tables = []
    stages = _by_variation(report.cutflows, lambda row: row.stage)
    shown = [
        (title(stage, variation), cutflows)
        for stage, of_stage in stages.items()
        for variation, cutflows in compared(of_stage, report.older)
    ]
    for number, (name, cutflows) in enumerate(shown):
        nominal, *varied = ((name, by_cut(cutflow)) for name, cutflow in cutflows.items())
        several = len({row.selection for row in nominal[1].values()}) > 1
        none = {dataset: Number("–") for *_, dataset in nominal[1]}
        events, weights = dict[tuple[object, ...], dict[str, str]](), list[dict[str, str]]()
        for place, row in nominal[1].items():
            of = f"{row.selection}: " if several else ""
            at_first = events.setdefault((row.selection,), {"cut": f"{of}all", **none})
            if at_first[row.dataset] == "–":
                at_first[row.dataset] = amount(row.before)
            after = events.setdefault(place[:3], {"cut": of + row.cut, **none})
            kept = f"{amount(row.after)} · {percent(row.share)} · {percent(row.total)}"
            after[row.dataset] = Number(kept.replace(" %", "\xa0%"))
            sums = {name: cuts[place].weights if place in cuts else None for name, cuts in varied}
            weights.append(
                {
                    "dataset": row.dataset,
                    "cut": of + row.cut,
                    "sum of weights": decimal(row.weights),
                    "±": decimal(row.error),
                    **{name: change(row.weights, total) for name, total in sums.items()},
                }
            )
        tables.append(Section(f"cutflow-{number}", f"Cutflow {name}", [*events.values()], [_KEPT]))
        if varied or any(row.weights != row.after for row in nominal[1].values()):
            name = f"Cutflow {name}: sums of weights"
            tables.append(Section(f"weights-{number}", name, weights, _notes(report, varied)))
    return tables


def _results(report: Report) -> list[Section]:
    places = _by_variation(report.histograms, lambda row: (row.stage, row.dataset))
    shown = [pair for rows in places.values() for pair in compared(rows, report.older)]
    varied = dict.fromkeys(name for _, rows in shown for name in [*rows][1:])
    histograms = []
    for variation, (row, *others) in ((name, rows.values()) for name, rows in shown):
        sums = {of.variation: of.sum for of in others}
        histograms.append(
            {
                "histogram": Link(title(row.stage, variation), row.file),
                "dataset": row.dataset,
                "bins": row.bins,
                "effective entries": decimal(row.entries),
                "sum of weights": decimal(row.sum),
                "±": decimal(row.error),
                "outside the axes": decimal(row.outside),
                **{name: change(row.sum, sums.get(name)) for name in varied},
            }
        )
    outside = "Sums include under- and overflow; 'outside the axes' is only under- and overflow."
    skims = [
        {
            "skim": row.name,
            "dataset": row.dataset,
            "events": amount(row.events),
            "files": amount(len(row.files)),
            "size": size(row.size),
        }
        for row in report.skims
    ]
    written = "The events in the skims. The files themselves are listed below."
    files = [{"file": Link(row.file, row.file), "size": size(row.size)} for row in report.files]
    return [
        Section("histograms", "Histograms", histograms, [outside, *_notes(report, varied)]),
        Section("skims", "Skims", skims, [written]),
        Section("files", "Files", files),
    ]


def _rules(report: Report) -> Section:
    rows = [
        {
            "rule": row.rule,
            "pool": row.pool,
            "jobs": amount(row.jobs),
            "earlier": amount(row.earlier or None),
            "retries": amount(row.retries or None),
            "queue": duration(row.wait),
            "shortest": duration(row.least),
            "median": duration(row.median),
            "longest": duration(row.most),
            "time limit": duration(row.asked_time),
            "CPU": percent(row.cpu),
            "memory": size(row.memory),
            "asked": size(row.asked_memory),
            "read": size(row.read),
            "written": size(row.written),
            "events/s": amount(row.speed),
        }
        for row in report.rules
    ]
    notes = [
        "The table counts all jobs that are done. Earlier: jobs that ran in an earlier run. "
        "Queue: median wait in the batch system. Memory: the highest use of one job.",
        "CPU: CPU time as a share of run time × cpus. "
        "Read, written: bytes of all read and write calls. Events/s: speed of one job. "
        "'fasthep-smk sizes' proposes how much memory and time jobs should ask for.",
    ]
    return Section("rules", "Rules and pools", rows, notes)


def _reasons(report: Report) -> Section:
    rows = [
        {"rule": rule, "jobs": amount(many), "why": why}
        for rule, reasons in report.reasons.items()
        for why, many in reasons.items()
    ]
    kept = report.earlier
    notes = [
        f"The results of {amount(kept)} jobs come from an earlier run, and are still valid."
        if kept
        else "No result of an earlier run is still valid."
    ]
    return Section("reasons", "What ran in the last run, and why", rows, notes)


def _provenance(report: Report) -> list[Section]:
    run = report.run
    facts = [("build folder", report.build)]
    if run:
        took = "" if run["ended"] is None else f", {duration(run['ended'] - run['started'])}"
        facts += [
            ("command", run["command"]),
            ("started in", run["folder"]),
            ("last run", f"{when(run['started'])}{took}"),
            ("site", f"{run['site']} ({run['system']})"),
            *(("version", f"{name} {version}") for name, version in run["versions"].items()),
            *(("SHA-256", f"{digest}  {path}") for path, digest in run["digests"].items()),
        ]
    facts.append(("this report", when(report.made)))
    inputs = [
        {
            "file": row.file,
            "size": Number("–" if row.size is None else f"{amount(row.size)} B"),
            "modified": "–" if row.time_ns is None else when(row.time_ns / 1e9),
        }
        for row in report.inputs
    ]
    return [
        Section("provenance", "Provenance", [{"": name, " ": fact} for name, fact in facts]),
        Section("inputs", "Input files", inputs),
        Section(
            "own_reads",
            "Read by your own code",
            [
                {"file": row.name, "read by": row.by, "content": row.content}
                for row in report.own_reads
            ],
        ),
    ]


def jobs_of(rule: RuleFacts) -> Section:
    """Return the jobs of a rule, which only the page shows."""
    rows = [
        {
            "job": job.key,
            "state": job.state,
            "host": job.host,
            "batch job": job.batch_job,
            "started": "" if job.started is None else when(job.started),
            "ran": duration(job.seconds),
            "memory": size(job.memory),
            "retries": amount(job.retries or None),
            "log": Link("log", job.log) if job.log else "",
        }
        for job in rule.jobs
    ]
    return Section("jobs", "Jobs", rows)
