"""The tables of the report on a build folder, of which page and terminal show the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Self

from fasthep_smk.contrib.report.document import FailedJob, Report
from fasthep_smk.contrib.report.measures import PoolUse
from fasthep_smk.contrib.report.numbers import (
    Number,
    amount,
    decimal,
    duration,
    efficiency,
    percent,
    size,
    when,
)
from fasthep_smk.contrib.report.rules import RuleFacts
from fasthep_smk.storage import failures

__all__ = ["Link", "Section", "groups", "jobs_of", "sections"]


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
    """Return the same in four groups: a page has plots, charts and a graph between them."""
    every = [
        [_failed(report), _missing(report), *_cutflows(report)],
        _results(report),
        [_rules(report), _pools(report), _requested(report), _critical(report), _reasons(report)],
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
            "memory": _memory(job),
            "fix": job.fix,
            "run it alone": job.rerun,
            "log": Link(job.log, job.log),
        }
        for job in report.failures
    ]
    more = report.failed - len(rows)
    notes = [f"{more} more failed: 'fasthep-smk status' counts them"] if more > 0 else []
    return Section("failures", "Failed jobs", rows, notes)


def _memory(job: FailedJob) -> str:
    amounts = {"asked for": job.memory, "used": job.used}
    return ", ".join(f"{size(many)} {what}" for what, many in amounts.items() if many)


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
    return Section("missing", "Partitions that the results lack", rows)


def _cutflows(report: Report) -> list[Section]:
    found = []
    for number, cutflow in enumerate(report.cutflows):
        rows = [
            {
                "dataset": row.dataset,
                "cut": row.cut,
                "events before": amount(row.before),
                "after": amount(row.after),
                "kept": efficiency(row.share),
                "of all": efficiency(row.total),
                "sum of weights": decimal(row.weights),
                "±": decimal(row.error),
            }
            for row in cutflow.rows
        ]
        found.append(Section(f"cutflow-{number}", f"Cutflow {cutflow.name}", rows))
    return found


def _results(report: Report) -> list[Section]:
    histograms = [
        {
            "histogram": Link(row.name, row.file),
            "dataset": row.dataset,
            "bins": row.bins,
            "effective entries": decimal(row.entries),
            "sum of weights": decimal(row.sum),
            "±": decimal(row.error),
            "outside the axes": decimal(row.outside),
        }
        for row in report.histograms
    ]
    outside = "Sums are with under- and overflow; 'outside the axes' is these alone."
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
    written = "Events that were written; the files themselves are below."
    files = [{"file": Link(row.file, row.file), "size": size(row.size)} for row in report.files]
    return [
        Section("histograms", "Histograms", histograms, [outside]),
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
        "All jobs that are done. Earlier: those of them that ran in an earlier run. "
        "Queue: median wait in the batch system. Memory: the most that one job held.",
        "CPU: seconds on CPUs as a share of run time times cpus. "
        "Read, written: bytes of all calls that do so. Events/s: in one job, while it runs.",
    ]
    return Section("rules", "Rules and pools", rows, notes)


def _requested(report: Report) -> Section:
    shown: Mapping[str, Callable[[float | None], Number]] = {
        "memory": size, "time": duration, "cores": _cores,
    }  # fmt: skip
    rows = [
        {
            "pool": row.pool,
            "what": row.amount,
            "jobs": amount(row.jobs),
            "asked": shown[row.amount](row.asked),
            "most used": shown[row.amount](row.used),
            "by rule": row.rule,
            "advice": "–"
            if row.advised is None
            else f"ask for {shown[row.amount](row.advised)}: saves {percent(row.saved)}",
        }
        for row in report.requested
    ]
    note = (
        "Advised is what 'fasthep-smk sizes' proposes: the most that one job took, and a margin "
        "that falls as jobs are done. Of cores: as many as were busy, on average over a job. Only "
        "where three jobs or more have asked for the same, none died for want of it, and a fifth "
        "or more is saved."
    )
    return Section("requested", "Asked for and used", rows, [note])


def _cores(value: float | None) -> Number:
    many = f"{value:.1f}".removesuffix(".0")
    return Number(f"{many} core{'' if many == '1' else 's'}")


#: A limit that was reached for this share of the time while jobs waited may be raised; of cores or
#: workers of which less than this share was busy, there are enough.
_FULL, _IDLE = 0.5, 0.5


def _pools(report: Report) -> Section:
    rows = [
        {
            "pool": row.pool or ("all, in cores" if row.unit == "cores" else ""),
            "limit": amount(row.limit),
            "most": amount(row.most),
            "mean": Number(f"{row.mean:.1f}"),
            "waiting": Number(f"{row.waiting:.1f}"),
            "full": percent(row.full),
            "advice": _limit_advice(row),
            "why jobs waited": ", ".join(f"{why} ({many})" for why, many in row.reasons.items()),
        }
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
    return Section("pools", "Pools and their limits", rows, notes)


def _limit_advice(row: PoolUse) -> str:
    limit, full = row.limit, row.full
    if limit is None or full is None:
        return "–"
    if full >= _FULL and row.waiting >= 1:
        jobs = row.unit == "jobs"
        return "more may end the run sooner" if jobs else "more cores may end it sooner"
    if limit > 1 and row.most <= limit * _IDLE:
        return f"{amount(row.most)} would have done"
    return "–"


def _critical(report: Report) -> Section:
    steps = report.critical_path
    ran, waited = sum(step.seconds for step in steps), sum(step.waited for step in steps)
    rows = [
        {
            "rule": step.rule,
            "job": step.key,
            "waited": duration(step.waited),
            "ran": duration(step.seconds),
        }
        for step in steps
    ]
    notes = [
        "Each of these jobs needed the one above it, which was the last of what it needed to end.",
        f"Its jobs ran {duration(ran)} and waited {duration(waited)} that they could have run.",
    ]
    ended = report.verdict.state in ("finished", "partial")
    title = "What set the end of the run" if ended else "What the job that ended last needed"
    return Section("critical", title, rows, notes)


def _reasons(report: Report) -> Section:
    rows = [
        {"rule": rule, "jobs": amount(many), "why": why}
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
        Section("provenance", "Provenance", [{"what": name, "": fact} for name, fact in facts]),
        Section("inputs", "Input files", inputs),
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
