"""Jobs of an earlier run that a run takes over in place of a submission."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fasthep_smk.executors import submissions
from fasthep_smk.executors.batch_executor import BatchExecutor
from fasthep_smk.executors.submissions import Submissions, name_of
from fasthep_smk.sites import slurm_queue
from fasthep_smk.storage import batch_jobs
from tests.support import tables
from tests.support.squeue import listed

RECORD = "smk/work/stage_Mass/dy/0_0/record.json"


def job(**more: Any) -> Any:
    told = {
        "rule": SimpleNamespace(name="stage_Mass"),
        "name": "stage_Mass",
        "shellcmd": "sh smk/worker debug/0_0.log 1 1 stage_Mass dy 0_0",
        "output": [RECORD],
        "attempt": 1,
        "is_group": lambda: False,
    }
    return SimpleNamespace(**{**told, **more})


@pytest.fixture(autouse=True)
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build folder, as the working folder, with one job."""
    monkeypatch.chdir(tmp_path)
    submissions._requests.cache_clear()
    submissions._table.cache_clear()
    (tmp_path / "smk/tasks").mkdir(parents=True)
    table = tables.table(jobs={"dy/0_0": tables.entry(signature=tables.signed("abc"))})
    (tmp_path / "smk/tasks/stage_Mass.json").write_text(table.to_text())
    requests = {"submitted_as": {"stage_Mass": ["small", "large"]}}
    (tmp_path / "smk/requests.json").write_text(json.dumps(requests))
    return tmp_path


def submit(*, alone: bool = True, **more: Any) -> None:
    here = Submissions("slurm")
    with here.submitting(job(**more), name_of(job(**more)), alone=alone):
        here.taken("17", "out/17.log")


def squeue(monkeypatch: pytest.MonkeyPatch, build: Path, *jobs: str) -> None:
    lines = [f"{one}|R|cpu|None|stage_Mass:dy/0_0|{build}" for one in jobs]
    text = listed(*lines, submitted=time.time())
    monkeypatch.setattr(slurm_queue, "ask", lambda *_, **_more: text)


@pytest.mark.parametrize(("attempt", "asked"), [(1, "small"), (2, "large"), (3, "large")])
def test_a_submission_says_what_of_and_with_what(build: Path, attempt: int, asked: str) -> None:
    submit(attempt=attempt)
    [one] = batch_jobs.read(build)
    assert (one.name, one.rule, one.key) == ("stage_Mass:dy/0_0", "stage_Mass", "dy/0_0")
    assert (one.record, one.signature, one.asked) == (RECORD, tables.signed("abc"), asked)
    assert (one.batch_id, one.captured) == ("17", "out/17.log")


def test_a_job_in_the_queue_is_taken_over_once(
    build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit()
    squeue(monkeypatch, build, "17")
    here = Submissions("slurm")
    assert here.is_left(job())
    earlier = here.take_over(job())
    assert earlier is not None
    assert (earlier[0].batch_id, earlier[1]) == ("17", True)
    assert here.take_over(job()) is None  # its next attempt
    here.ended("17")
    assert batch_jobs.read(build) == []


@pytest.mark.parametrize("well", [True, False])
def test_a_job_that_has_ended_meanwhile(
    build: Path, monkeypatch: pytest.MonkeyPatch, well: bool
) -> None:
    """If it has left what Snakemake waits for, it is done; or else it is submitted."""
    submit()
    squeue(monkeypatch, build)
    if well:
        (build / RECORD).parent.mkdir(parents=True)
        (build / RECORD).touch()
    earlier = Submissions("slurm").take_over(job())
    assert (earlier is not None and not earlier[1]) == well


def test_while_slurm_does_not_answer_a_job_is_not_submitted_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    submit()
    monkeypatch.setattr(slurm_queue, "ask", lambda *_, **_more: None)
    earlier = Submissions("slurm").take_over(job())
    assert earlier is not None
    assert earlier[1]


def test_what_is_more_than_our_worker_is_not_taken_over(build: Path) -> None:
    submit(alone=False)
    assert not Submissions("slurm").is_left(job())
    assert [one.signature for one in batch_jobs.read(build)] == [""]


def test_what_is_refused_is_not_noted(build: Path) -> None:
    here = Submissions("slurm")
    with here.submitting(job(), "stage_Mass:dy/0_0", alone=True):
        here.refused()
    assert batch_jobs.read(build) == []


def test_other_jobs_are_called_by_their_rules() -> None:
    assert name_of(job(shellcmd="python fit.py")) == "stage_Mass"
    assert name_of(job(is_group=lambda: True, name="group7")) == "group7"
    assert name_of(job(shellcmd="sh smk/worker finish.log 1 1 stage_Mass")) == "stage_Mass"


def test_a_group_of_jobs_has_a_name_of_its_own() -> None:
    """By that alone a submission is found again whose answer was not understood."""
    inner = [
        job(shellcmd=f"sh smk/worker {part}.log 1 1 stage_Mass dy {part}", output=[part])
        for part in ("1_0", "0_0")
    ]
    assert name_of(job(is_group=lambda: True, name="group7", jobs=inner)) == "group7:dy/0_0"


LEAVING = """\
import threading, time
from fasthep_smk.executors.submissions import Submissions
from tests.unit.executors.test_submissions import job

here = Submissions("slurm")


def submit(output, number):
    with here.submitting(job(output=[output]), "stage_Mass", alone=True):
        time.sleep(1)
        here.taken(number)


threading.Thread(target=submit, args=("first", "17"), daemon=True).start()
time.sleep(0.3)
threading.Thread(target=here.leave, daemon=True).start()
time.sleep(0.3)
submit("second", "18")
"""


def test_who_leaves_waits_for_a_submission_and_begins_no_other(build: Path) -> None:
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", LEAVING], cwd=build, env={**os.environ, "PYTHONPATH": root}
    )
    assert done.returncode == -signal.SIGKILL
    [one] = batch_jobs.read(build)
    assert (one.record, one.batch_id) == ("first", "17")


class Plugin:
    """What a plugin's executor does with a job that has failed, and what ours adds."""

    def __init__(self) -> None:
        self.failed: list[Any] = []
        self.handed_back: list[Any] = []
        self.workflow = SimpleNamespace(
            scheduler=SimpleNamespace(error_callback=self.handed_back.append)
        )
        self.__post_init__()

    def __post_init__(self) -> None:
        """Do what a plugin does."""

    def report_job_error(self, job_info: Any, msg: str | None = None) -> None:
        self.failed.append((job_info.job, msg))


class Executor(BatchExecutor, Plugin):  # type: ignore[misc]
    _system = "slurm"


@pytest.mark.parametrize("wanted", [True, False])
def test_a_job_that_a_person_wants_again_has_not_failed(build: Path, wanted: bool) -> None:
    """``fasthep-smk retry`` cancels it: that uses up no attempt."""
    executor = Executor()
    with executor._submissions.submitting(job(), "stage_Mass:dy/0_0", alone=True):
        executor._submissions.taken("17")
    [noted] = batch_jobs.read(build)
    batch_jobs.again(build, noted.token)
    batch_jobs.again(build, noted.token, wanted=wanted)
    mine = job(log=[], jobid=1)
    executor.report_job_error(SimpleNamespace(job=mine, external_jobid="17"))
    assert executor.handed_back == ([mine] if wanted else [])
    assert executor.failed == ([] if wanted else [(mine, None)])


def unheard() -> Submissions:
    """What sbatch was asked for, and has not answered."""
    here = Submissions("slurm")
    with here.submitting(job(), name_of(job()), alone=True):
        pass
    return here


def test_a_job_that_has_arrived_unheard_is_taken_over(
    build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = unheard()
    squeue(monkeypatch, build, "18")
    assert here.arrived(job(), name_of(job())) == "18"
    assert [one.batch_id for one in batch_jobs.read(build)] == ["18"]


def test_a_job_that_has_not_arrived_is_submitted_again(
    build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = unheard()
    squeue(monkeypatch, build)
    assert here.arrived(job(), name_of(job())) == ""
    assert batch_jobs.read(build) == []


def test_a_queue_that_does_not_answer_is_asked_again(
    build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = unheard()
    monkeypatch.setattr(slurm_queue, "ask", lambda *_, **_more: None)
    assert here.arrived(job(), name_of(job())) is None
    assert len(batch_jobs.read(build)) == 1


def test_a_number_may_be_given_again(build: Path) -> None:
    """By a controller that has lost its state, while the first job of that number has failed."""
    here = Submissions("slurm")
    for part in ("0_0", "1_0"):
        other = job(shellcmd=f"sh smk/worker debug/{part}.log 1 1 stage_Mass dy {part}")
        with here.submitting(other, name_of(other), alone=False):
            here.taken("1")
    assert [(one.name, one.batch_id) for one in batch_jobs.read(build)][-1] == (
        "stage_Mass:dy/1_0",
        "1",
    )
