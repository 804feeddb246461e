"""What a run knows of its jobs from what Snakemake reports."""

from __future__ import annotations

import pytest

from fasthep_smk.executors.job_events import (
    Event,
    GroupFailed,
    JobFailed,
    JobFinished,
    JobRetried,
    JobsPlanned,
    JobStarted,
    Moved,
)
from fasthep_smk.run.snakemake_output import Reader

STARTED = JobStarted("4", "stage_A", ["smk/work/stage_A/dy/0_0/record.json"])


def after(*events: Event) -> Reader:
    reader = Reader(None)
    for event in events:
        reader.event(event)
    return reader


def failed(number: int, *captured: str, message: str = "None") -> JobFailed:
    return JobFailed(str(number), "stage_A", [f"logs/{number}.log", *captured], message)


def again(number: int) -> JobRetried:
    return JobRetried(str(number))


def test_a_failed_job_is_known_by_its_log_not_by_what_the_batch_system_captured() -> None:
    reader = after(STARTED, failed(4, "/out/4.log"))
    assert [*reader.failed_logs.values()] == ["logs/4.log"]


def test_a_job_that_is_tried_again_has_not_failed() -> None:
    reader = after(failed(4), failed(5), again(4), STARTED)
    assert [*reader.failed_logs.values()] == ["logs/5.log"]


def test_the_last_attempt_counts() -> None:
    assert [*after(failed(4), again(4), failed(4)).failed_logs.values()] == ["logs/4.log"]


def test_several_jobs_in_one_of_the_batch_system_are_known_by_what_that_captured() -> None:
    group = GroupFailed(["5", "6"], ["/out/group.log"], "Error in group 1")
    reader = after(failed(4), STARTED, group)
    assert [*reader.failed_logs.values()] == ["logs/4.log", "/out/group.log"]


def test_jobs_of_one_batch_job_are_counted_once_however_often_they_are_tried() -> None:
    jobs = [JobStarted(one, "stage_A", [f"smk/work/a/{one}/record.json"]) for one in ("5", "6")]
    group = GroupFailed(["5", "6"], ["/out/group.log"], "Error in group 1")
    reader = after(JobsPlanned({"stage_A": 2}), *jobs, group)
    tally = reader.tally.rules["stage_A"]
    assert (tally.running, tally.failed, tally.done) == (0, 2, 0)
    for event in (*jobs, JobFinished("5"), JobFinished("6")):
        reader.event(event)
    assert (tally.running, tally.failed, tally.done) == (0, 0, 2)
    assert reader.failed_logs == {}


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("None", ""),
        ("held by\n HTCondor. For further error details see there", "held by HTCondor."),
    ],
)
def test_what_is_said_of_a_failed_job(message: str, said: str) -> None:
    assert after(failed(4, message=message)).messages == {"logs/4.log": said}


def test_jobs_are_known_by_their_folders_and_bundles_by_their_markers() -> None:
    reader = after(
        JobsPlanned({"stage_A": 2, "all": 1}),
        STARTED,
        JobStarted("5", "stage_A", ["smk/bundles/stage_A/dy/1.json (missing)"]),
        JobStarted("0", "all", []),
    )
    assert reader.folders == ["smk/work/stage_A/dy/0_0", "smk/bundles/stage_A/dy/1.json"]
    assert reader.jobs == {"stage_A": 2}


def test_a_half_line_and_one_of_another_kind_are_none() -> None:
    reader = Reader(None)
    lines = [
        '{"kind": "JobFin',
        '{"kind": "Other"}',
        '{"kind": "Submitted"}',
        '{"kind": "Submitted", "batch_id": 7}',
        '{"kind": "JobsPlanned", "rules": {"a": "b"}}',
        "[]",
        "",
    ]
    for line in lines:
        reader.event_line(line)
    assert reader.jobs == {}


def test_a_job_under_way_is_counted_in_the_pool_that_it_went_to() -> None:
    moved = Moved("stage_A", ["dy/0_0"], ["4"], 1800, "gpu", "default")
    went = after(JobsPlanned({"stage_A": 2}), STARTED, moved, STARTED)
    assert went.tally.running == {"4": "stage_A"}
    assert went.moved == {"4": "default"}
