"""What becomes of pilots that an earlier run has left, and of jobs of an unknown executor."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fasthep_smk.cli import background, status
from fasthep_smk.run import earlier_jobs
from fasthep_smk.sites import slurm_queue
from fasthep_smk.storage import batch_jobs
from fasthep_smk.storage.batch_jobs import BatchJob
from fasthep_smk.util.errors import RunFailed, WrongArgument
from tests.support.squeue import listed


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build folder of which Slurm has a pilot and two jobs, until they are cancelled."""
    (tmp_path / "smk/tasks").mkdir(parents=True)
    queue = {"41": "R|gpu|None|pilot:gpu", "42": "PD|gpu|Resources|A:dy", "43": "R|gpu|None|A:data"}

    def ask(command: list[str], *_: object, **_more: object) -> str:
        if command[0] == "scancel":
            for job in command[2:]:
                del queue[job]
        return listed(*(f"{job}|{said}|{tmp_path}" for job, said in queue.items()))

    monkeypatch.setattr(slurm_queue, "ask", ask)
    monkeypatch.setattr(earlier_jobs, "ask", ask)
    for number, name, pool in (("41", "", "gpu"), ("42", "A:dy", ""), ("43", "A:data", "")):
        told: dict[str, Any] = {"record": name, "rule": "A", "key": "", "pilot": pool}
        job = BatchJob(token=number, system="slurm", name=name, **told)
        batch_jobs.submitting(tmp_path, job)
        batch_jobs.queued(tmp_path, number, number, "")
    return tmp_path


def test_pilots_are_cancelled_for_a_reason_of_their_own(
    build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (build / "smk/run.json").write_text('{"environment": {}}')
    monkeypatch.setattr(earlier_jobs, "variables_of_run", lambda _: {})
    site = SimpleNamespace(system="slurm")
    placement = SimpleNamespace(submitted_as=dict, transfers=False, site=site)
    placed: Any = SimpleNamespace(build=build, rules=[], placement=placement)
    pilots, jobs = earlier_jobs.settle(placed)
    assert jobs.startswith("2 jobs of an earlier run cancelled: jobs in transfer mode, in a group ")
    assert pilots == (
        "1 pilot of an earlier run cancelled: a pilot ends with its run, and its jobs run again"
    )


def test_pilots_are_no_jobs_that_are_taken_over(build: Path) -> None:
    said = str(earlier_jobs.stay(build)).splitlines()
    assert said[0].startswith("2 jobs may still be in the queue: the same command takes them over")
    assert said[1].startswith("pilots end within a minute, with their jobs")


def test_both_are_counted(build: Path) -> None:
    assert earlier_jobs.cancel_all(build) == ["2 jobs and 1 pilot cancelled"]


def test_status_calls_a_pilot_so(build: Path) -> None:
    found = status.look(build)
    assert "    slurm job 41: pilot of pool gpu: running" in status.as_text(found).splitlines()
    queue: Any = status.as_data(found)["queue"]
    assert [one.get("pilot_of_pool") for one in queue] == ["gpu", None, None]


def test_a_pilot_is_not_tried_again(build: Path) -> None:
    with pytest.raises(WrongArgument) as caught:
        background.retry("41", build)
    assert "is a pilot, which runs one job after another for pool 'gpu'" in str(caught.value)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A build folder with two jobs of an executor that cannot be asked."""
    (tmp_path / "smk/tasks").mkdir(parents=True)
    for number in ("7.1", "8"):
        told: dict[str, Any] = dict.fromkeys(("record", "rule", "key", "name"), "")
        job = BatchJob(token=number, system="cluster-generic", **told)
        batch_jobs.submitting(tmp_path, job)
        batch_jobs.queued(tmp_path, number, number, "")
    return tmp_path


UNKNOWN = "executor 'cluster-generic' cannot tell what is in its queue"


def test_no_run_begins_beside_jobs_that_nobody_can_ask_for(other: Path) -> None:
    placed: Any = SimpleNamespace(build=other)
    with pytest.raises(RunFailed) as error:
        earlier_jobs.settle(placed)
    assert str(error.value).splitlines() == [
        f"{UNKNOWN}: jobs of an earlier run may be left in it. Cancel them there: 7.1, 8",
        "or add --cancel: the run then goes on without these jobs",
    ]
    assert len(batch_jobs.read(other)) == 2
    (said,) = earlier_jobs.settle(placed, cancel=True)
    assert said.endswith("Cancel them there: 7.1, 8")
    assert batch_jobs.read(other) == []


def test_what_may_go_on_is_named_where_nobody_can_be_asked(other: Path) -> None:
    assert f"{UNKNOWN}: jobs of this run may be left in it" in str(earlier_jobs.stay(other))
    with pytest.raises(RunFailed, match=r"Cancel them there: 7\.1, 8"):
        earlier_jobs.cancel_all(other)
    assert f"{UNKNOWN}; submitted jobs that may still run: 7.1, 8" in status.as_text(
        status.look(other)
    )
    with pytest.raises(RunFailed, match="own command; the run then submits it again"):
        background.retry("8", other)
