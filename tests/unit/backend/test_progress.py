"""FAST-HEP's own reporter is told of its partitions by what Snakemake reports of our jobs."""

from __future__ import annotations

from typing import Any

from hepflow.model.plan import ExecutionPartition
from hepflow.progress import ProgressReporter

from fasthep_smk.backend.progress import Partitions
from fasthep_smk.executors.job_events import (
    Event,
    JobFailed,
    JobFinished,
    JobsPlanned,
    JobStarted,
)
from fasthep_smk.plan.partitions import Partition
from fasthep_smk.plan.rules import Bundle, Job, Rule
from fasthep_smk.run.snakemake_output import Reader

FILES = ("a", "b")
PLANNED = JobsPlanned({"Vars": 2, "Hist": 2, "all": 1})


def theirs(file: str, start: int = 0) -> ExecutionPartition:
    return ExecutionPartition(f"id_{file}{start}", "dy", file, "events", f"{file}_{start}", start)


def rule(name: str) -> Rule:
    jobs = {}
    for file in FILES:
        part = f"{file}_0"
        partition = Partition(f"id_{part}", "dy", file, "events", part)
        wildcards = {"dataset": "dy", "part": part}
        made = Job(name, wildcards, "nominal", "dy", partition, (), (), (), "signature")
        jobs[made.key] = made
    return Rule(name, "partition", (), None, ("dataset", "part"), jobs=jobs)  # type: ignore[arg-type]


def started(number: int, name: str, part: str) -> JobStarted:
    return JobStarted(str(number), name, [f"smk/work/{name}/dy/{part}/record.json"])


def follow(*events: Event, valid: tuple[str, ...] = (), rules: tuple[Rule, ...] = ()) -> Any:
    """Report these events; return the reporter, and what shows the run."""
    partitions = [theirs("a"), theirs("b")]
    reporter = ProgressReporter(partitions)
    shown = Partitions(reporter, partitions)
    shown.start()
    reader = Reader(shown.of(rules or (rule("Vars"), rule("Hist")), valid))
    for event in (PLANNED, *events):
        reader.event(event)
    return reporter, shown


def counts(reporter: ProgressReporter) -> tuple[int, int, int, int]:
    found = reporter.counts
    return found.pending, found.running, found.completed, found.failed


def test_a_partition_is_done_with_the_last_of_its_jobs() -> None:
    first = (started(1, "Vars", "a_0"), JobFinished("1"))
    second = (started(2, "Hist", "a_0"), JobFinished("2"))
    assert counts(follow(*first)[0]) == (1, 1, 0, 0)
    assert counts(follow(*first, *second)[0]) == (1, 0, 1, 0)


def test_what_was_done_before_is_done_at_once() -> None:
    valid = ("smk/work/Vars/dy/b_0", "smk/work/Hist/dy/b_0")
    assert counts(follow(valid=valid)[0]) == (1, 0, 1, 0)


def test_the_partitions_of_a_bundle_are_done_together() -> None:
    one = rule("Vars")
    one.bundles = {"0": Bundle("Vars", ("0",), tuple(one.jobs))}
    marker = next(iter(one.bundles.values())).marker
    events = (JobStarted("1", "Vars", [marker]), JobFinished("1"))
    assert counts(follow(*events, rules=(one,))[0]) == (0, 0, 2, 0)


def test_a_failed_job_is_a_failed_partition() -> None:
    reporter, shown = follow(started(1, "Vars", "a_0"), JobFailed("1", "Vars", ["a.log"], ""))
    shown.fail(RuntimeError("1 job failed"))
    assert counts(reporter) == (1, 0, 0, 1)


def test_at_the_end_all_are_done_though_nothing_has_run() -> None:
    partitions = [theirs("a"), theirs("a", 500)]
    reporter = ProgressReporter(partitions)
    shown = Partitions(reporter, partitions)
    shown.start()
    shown.end()
    assert counts(reporter) == (0, 0, 2, 0)


def test_a_file_that_fasthep_has_cut_otherwise_counts_as_a_whole() -> None:
    partitions = [theirs("a", 7), theirs("a", 8), theirs("b")]
    reporter = ProgressReporter(partitions)
    shown = Partitions(reporter, partitions)
    shown.start()
    reader = Reader(shown.of([rule("Vars")], ()))
    for event in (PLANNED, started(1, "Vars", "a_0"), JobFinished("1")):
        reader.event(event)
    assert counts(reporter) == (1, 0, 2, 0)
