"""What the report on a build folder says; ``tables.py`` makes tables of it, ``page.py`` the page.

No text in it holds a secret: what jobs, servers and users have said is masked.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from fasthep_smk.contrib.report import measures, results, rules
from fasthep_smk.contrib.report.facts import Facts, InputFile, Lacking, OwnRead, by_state, grouped
from fasthep_smk.contrib.report.numbers import duration, percent, when
from fasthep_smk.contrib.report.rules import RuleFacts
from fasthep_smk.flow.records import SampleFacts
from fasthep_smk.run.job_counts import Pace, seconds_left
from fasthep_smk.storage import failures, missing_report
from fasthep_smk.storage.jobs import State
from fasthep_smk.storage.last_run import LastRun
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.files import read_plain
from fasthep_smk.util.masking import masked
from fasthep_smk.util.names import printable, shell

_T = TypeVar("_T")

#: How many failed jobs are told in full, and how much of each log.
_FAILED, _LINES, _WIDTH, _LOG = 20, 15, 200, 20_000


@dataclass(frozen=True)
class Verdict:
    """How a build folder stands: in a word, and in a sentence."""

    state: str
    text: str


@dataclass(frozen=True, kw_only=True)
class FailedJob:
    """A job that failed, as people read it. ``memory`` is what it asked for, ``used`` the most.

    ``tail`` are the last lines of its log, ``rerun`` is the command that runs it alone.
    """

    rule: str
    key: str
    stage: str
    kind: failures.FailureKind
    problem: str
    fix: str
    dataset: str
    file: str
    entries: str
    at: str
    where: str
    memory: int | None
    used: int | None
    log: str
    tail: Sequence[str]
    rerun: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that the report says, as its JSON has it; times are seconds since 1970, sizes bytes.

    ``earlier`` is how many of the jobs that are done ran in an earlier run; ``missing_share`` are
    the events of ``missing`` as a share of all. ``failed`` is how many jobs failed: ``failures``
    are the first of them. ``reasons`` are those of `LastRun`. ``older`` are those of several
    variations whose results an earlier run has made: the job that ends them is not done.
    """

    build: str
    made: float
    counts: Mapping[State, int]
    earlier: int
    missing: Sequence[Lacking]
    missing_share: float | None
    sample: SampleFacts | None
    seconds_left: float | None
    cutflows: Sequence[results.Cutflow]
    histograms: Sequence[results.HistogramSums]
    skims: Sequence[results.Skim]
    files: Sequence[results.ResultFile]
    rules: Sequence[measures.RuleUse]
    each_rule: Sequence[RuleFacts]
    reasons: Mapping[str, Mapping[str, int]]
    failures: Sequence[FailedJob]
    failed: int
    run: LastRun | None
    inputs: Sequence[InputFile]
    own_reads: Sequence[OwnRead]
    verdict: Verdict
    older: Sequence[str]


def report_on(facts: Facts) -> Report:
    """Return all that the report says of a build folder."""
    run, build = facts.run, facts.build
    counts = by_state(facts.jobs)
    made, left, share = round(time.time(), 3), _seconds_left(facts), _missing_share(facts)
    cutflows, histograms = results.cutflows(build), results.histograms(build)
    names = {row.variation for row in cutflows} | {row.variation for row in histograms}
    ends = facts.ends if len(names) > 1 else {}
    report = Report(
        build=str(build),
        made=made,
        counts=counts,
        earlier=len(facts.done) - len(facts.new),
        missing=[*facts.lacking.values()],
        missing_share=share,
        sample=facts.sample,
        seconds_left=left,
        cutflows=cutflows,
        histograms=histograms,
        skims=results.skims(build),
        files=results.result_files(build),
        rules=measures.rules(facts.done),
        each_rule=rules.of_each(facts),
        reasons=run["reasons"] if run else {},
        failures=[_failure(build, failure) for failure in facts.failed[:_FAILED]],
        failed=len(facts.failed),
        run=run,
        inputs=facts.inputs,
        own_reads=facts.own_reads,
        verdict=_verdict(facts, counts, share, _end(made, left)),
        older=[name for name in sorted(names) if ends and not ends.get(name)],
    )
    return cleaned(report)


def as_data(report: Report) -> JsonObject:
    """Return a report as ``fasthep-smk report --json`` prints it."""
    return asdict(report)


def cleaned(value: _T) -> _T:
    """Return a report or a part of one without secrets, and nothing that a terminal would obey."""
    copy: Any = value
    if isinstance(copy, str):
        copy = clean(copy)
    elif is_dataclass(copy) and not isinstance(copy, type):
        copy = replace(copy, **{name: cleaned(part) for name, part in vars(copy).items()})
    elif isinstance(copy, dict):
        copy = {clean(str(name)): cleaned(part) for name, part in copy.items()}
    elif isinstance(copy, list | tuple):
        copy = type(copy)(map(cleaned, copy))
    plain: _T = copy
    return plain


@lru_cache(maxsize=4096)
def clean(text: str) -> str:
    """Return a text without secrets, and without what a terminal would obey."""
    return printable(masked(text))


def _missing_share(facts: Facts) -> float | None:
    """Return the share of all events that the results lack; ``None`` if it is not known."""
    counts = list(facts.events.values())
    if None in counts:
        return None
    total = sum(many or 0 for many in counts)
    return sum(lost["events"] or 0 for lost in facts.lacking.values()) / total if total else None


def _seconds_left(facts: Facts) -> float | None:
    """Return how long the run may still take, by the jobs that it has done so far."""
    if not facts.is_running:
        return None
    now, paces = time.time(), dict[str, Pace]()
    for rule, jobs in grouped(facts.jobs, lambda job: job.rule).items():
        took = [job.seconds for job in jobs if job.is_new]
        paces[rule] = Pace(len(took), sum(took), sum(job.state == "to do" for job in jobs))
    running = [(job.rule, now - job.started) for job in facts.jobs if job.state == "running"]
    return seconds_left(paces, running)


def _end(made: float, left: float | None) -> str:
    """Return in a sentence when a run may end; nothing if that cannot be said."""
    if left is None:
        return ""
    soon = f"{max(1, round(left))} s" if left < 59.5 else duration(left)
    return f" About {soon} left: the run may end at {when(made + left)}."


def _verdict(facts: Facts, counts: Mapping[State, int], share: float | None, end: str) -> Verdict:
    """Return how a build folder stands; ``share`` of the events is missing, ``end`` says when."""
    verdict = _outcome(facts, counts, share, end)
    if facts.sample is None or verdict.state == "running":
        return verdict
    text = f"A sample: {missing_report.said_of_sample(facts.sample)}."
    if verdict.state in ("finished", "to do"):
        return Verdict("sample", f"{text} These are not the results of all events.")
    return replace(verdict, text=f"{text} {verdict.text}")


def _outcome(facts: Facts, counts: Mapping[State, int], share: float | None, end: str) -> Verdict:
    """Return how the last run stands."""
    total = sum(counts.values())
    done = f"{counts['done']} of {total} jobs are done"
    outcome = facts.run["outcome"] if facts.run else None
    if facts.is_running:
        text = f"{done}, {counts['running']} run now." if total else "The run begins."
        return Verdict("running", f"{text}{end}")
    if not total:
        return Verdict("to do", "The workflow is not translated yet.")
    if outcome == "stopped":
        return Verdict("stopped", f"The run was stopped: {done}. Run again to continue.")
    if outcome == "running":
        return Verdict("failed", f"The run was killed: {done}. Run again to continue.")
    if outcome == "failed" or counts["failed"]:
        failed = counts["failed"]
        failing = f"{failed} job{'s' if failed != 1 else ''} failed; " if failed else ""
        return Verdict("failed", f"{failing}{done}.")
    if facts.lacking:
        lost, parts = len(facts.lacking), len(facts.events)
        events = "" if share is None else f", {percent(share)} of the events"
        return Verdict("partial", f"Missing in the results: {lost} of {parts} partitions{events}.")
    if counts["done"] < total:
        return Verdict("to do", f"{done}.")
    return Verdict("finished", f"All {total} jobs are done.")


def _failure(build: Path, failure: failures.Failure) -> FailedJob:
    command = shell(["snakemake", "--profile", "smk/profile", "--", failure.record])
    # A last attempt that was not worth trying used next to nothing.
    most = max([failure.used or 0, *(earlier.get("used") or 0 for earlier in failure.earlier)])
    return FailedJob(
        rule=failure.rule,
        key=failure.key,
        stage=failure.stage or ", ".join(failure.stages),
        kind=failure.kind,
        problem=failure.problem,
        fix=failure.fix or "",
        dataset=failure.dataset or "",
        file=failure.file or "",
        entries=failures.span(failure.start, failure.stop) if failure.file else "",
        at=failure.at or "",
        where=failures.where(failure) if failure.pool else "",
        memory=failure.memory,
        used=most or None,
        log=str(failures.log_of(failure)),
        tail=_tail(build / failures.log_of(failure)),
        rerun=f"{shell(['cd', build])} && {command}",
    )


def _tail(log: Path) -> list[str]:
    """Return the last lines of a log, without the secrets that they quote."""
    try:
        text = read_plain(log)[-_LOG:].decode(errors="replace")
    except OSError:
        return []
    lines = masked(text).splitlines()[-_LINES:]
    return [line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..." for line in lines]
