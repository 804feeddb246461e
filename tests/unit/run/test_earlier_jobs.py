"""What becomes of pilots that an earlier run has left in the queue."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fasthep_smk.cli import background
from fasthep_smk.report import status
from fasthep_smk.run import earlier_jobs
from fasthep_smk.sites import slurm
from fasthep_smk.storage import batch_jobs
from fasthep_smk.storage.batch_jobs import BatchJob
from fasthep_smk.util.errors import WrongArgument


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build folder of which Slurm has a pilot and two jobs, until they are cancelled."""
    (tmp_path / "smk/tasks").mkdir(parents=True)
    queue = {"41": "R|gpu|None|pilot:gpu", "42": "PD|gpu|Resources|A:dy", "43": "R|gpu|None|A:data"}

    def ask(command: list[str]) -> str:
        if command[0] == "scancel":
            for job in command[2:]:
                del queue[job]
        return "".join(f"{job}|{said}|{tmp_path}\n" for job, said in queue.items())

    monkeypatch.setattr(slurm, "ask", ask)
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
    jobs, pilots = earlier_jobs.settle(placed)
    assert jobs.startswith("2 jobs of an earlier run cancelled: jobs in transfer mode, ")
    assert pilots == (
        "1 pilot of an earlier run cancelled: a pilot ends with the run that has started it, and "
        "jobs in it run again"
    )


def test_pilots_are_no_jobs_that_are_taken_over(build: Path) -> None:
    said = str(earlier_jobs.stay(build)).splitlines()
    assert said[0].startswith("2 jobs may go on in the queue: the same command takes them over")
    assert said[1].startswith("pilots end within a minute, and the jobs in them")


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
    assert "is a pilot of pool 'gpu', which runs one job after the other" in str(caught.value)
