"""Which submissions are in the queue: by their numbers, or by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from fasthep_smk.sites import Queued, QueueState, slurm_queue
from fasthep_smk.storage import batch_jobs, layout, queue
from fasthep_smk.storage.batch_jobs import BatchJob
from tests.support.squeue import listed


def submitted(build: Path, *jobs: tuple[str, str, str]) -> None:
    """Note submissions: a token, the key of the job, and its number if there was an answer."""
    (build / "smk").mkdir(exist_ok=True)
    for token, key, batch_id in jobs:
        job = BatchJob(
            token=token, record=key, rule="A", key=key, system="slurm", name=f"A:{key}",
            signature="s",
        )  # fmt: skip
        batch_jobs.submitting(build, job)
        if batch_id:
            batch_jobs.queued(build, token, batch_id, "")


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lines that squeue prints, but for the folder."""
    lines: list[str] = []

    def ask(*_: object, **_more: object) -> str:
        return listed(*(f"{one}|{tmp_path}" for one in lines))

    monkeypatch.setattr(slurm_queue, "ask", ask)
    return lines


def found(build: Path) -> dict[str, tuple[str, str, bool]]:
    """By their tokens: number, state, and whether a run may take them over."""
    return {
        left.job.token: (left.queued.batch_id, left.queued.state, bool(left.job.signature))
        for left in queue.find(build) or ()
    }


def test_a_job_is_found_by_its_number(tmp_path: Path, squeue: list[str]) -> None:
    submitted(tmp_path, ("1", "dy", "41"), ("2", "data", "42"), ("3", "top", "43"))
    squeue += ["41|PD|cpu|Resources|A:dy", "43|CG|cpu|None|A:top", "44|R|cpu|None|A:data"]
    squeue += ["42|R|cpu|None|my_own_job"]
    assert found(tmp_path) == {"1": ("41", "waiting", True), "3": ("43", "ending", True)}


def test_a_submission_without_an_answer_is_found_by_its_name(
    tmp_path: Path, squeue: list[str]
) -> None:
    """The first attempt at a job has a number: what else is called so is the second."""
    submitted(tmp_path, ("1", "dy", "41"), ("2", "dy/1", ""), ("3", "data", ""))
    squeue += ["41|R|cpu|None|A:dy", "42|R|cpu|None|A:dy/1", "43|PD|cpu|None|A:data"]
    assert found(tmp_path) == {
        "1": ("41", "running", True),
        "2": ("42", "running", True),
        "3": ("43", "waiting", True),
    }


def test_another_rule_is_not_taken_for_it(tmp_path: Path, squeue: list[str]) -> None:
    submitted(tmp_path, ("1", "dy", ""))
    squeue += ["41|R|cpu|None|other_A:dy", "42|R|cpu|None|A:dy/1"]
    assert found(tmp_path) == {}


def test_where_names_do_not_tell_no_job_is_taken_over(tmp_path: Path, squeue: list[str]) -> None:
    submitted(tmp_path, ("1", "dy", ""), ("2", "dy", ""))
    squeue += ["41|R|cpu|None|A:dy"]
    assert {one[2] for one in found(tmp_path).values()} == {False}


def test_where_slurm_does_not_answer_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert queue.find(tmp_path) == []  # nobody is asked
    submitted(tmp_path, ("1", "dy", "41"))
    monkeypatch.setattr(slurm_queue, "ask", lambda *_, **_more: None)
    assert queue.find(tmp_path) is None


def test_why_jobs_waited_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def left(rule: str, state: QueueState, reason: str, pilot: str = "") -> queue.Left:
        one = batch_jobs.BatchJob(
            token="", record="", rule=rule, key="", system="slurm", name="", pilot=pilot
        )
        return queue.Left(one, Queued("1", "", state, "here", reason))

    found = [
        left("r", "waiting", "Resources"),
        left("r", "waiting", "Resources"),
        left("r", "running", "None"),
        left("", "waiting", "Priority", pilot="gpu"),
    ]
    answers: list[list[queue.Left] | None] = [found, None, []]
    monkeypatch.setattr(queue, "find", lambda _build: answers.pop(0))
    notes = tmp_path / layout.QUEUE_NOTES
    notes.parent.mkdir(parents=True)
    for _ in range(3):
        queue.note(tmp_path, {"r": "default"})
    assert len(notes.read_text().splitlines()) == 2  # it was not heard once
    with notes.open("a") as stream:
        stream.write('nonsense\n{"time": 1, "waiting": [["a"]]}\n')
    told = [(one.pool, one.reason, one.jobs) for one in queue.noted(tmp_path)]
    assert told == [("default", "Resources", 2), ("gpu", "Priority", 1)]
