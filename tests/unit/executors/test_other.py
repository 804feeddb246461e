"""Jobs of an executor that we do not know: noted while they are under way."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fasthep_smk.executors.other import Noting
from fasthep_smk.storage import batch_jobs

SYSTEM = "cluster-generic"


class Plugin:
    """The executor of a plugin, as far as it is asked."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.workflow = SimpleNamespace(scheduler=SimpleNamespace(error_callback=self.again))

    def again(self, job: Any) -> None:
        self.said.append(f"again after attempt {job.attempt}")

    def report_job_submission(self, job_info: Any) -> None:
        self.said.append(f"submitted {job_info.external_jobid}")

    def report_job_success(self, job_info: Any) -> None:
        self.said.append(f"done {job_info.external_jobid}")

    def report_job_error(self, job_info: Any, msg: str | None = None) -> None:
        self.said.append(f"failed {job_info.external_jobid}: {msg}")

    def cancel_jobs(self, active_jobs: list[Any]) -> None:
        self.said += [f"cancelled {one.external_jobid}" for one in active_jobs]


class Executor(Noting, Plugin):  # type: ignore[misc]
    _system = SYSTEM


@pytest.fixture(autouse=True)
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "smk").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def info(number: str | None) -> Any:
    return SimpleNamespace(
        external_jobid=number,
        job=SimpleNamespace(attempt=2, jobid=1, log=[], is_group=lambda: False),
    )


def under_way(build: Path) -> list[str]:
    return [one.batch_id for one in batch_jobs.read(build) if one.system == SYSTEM]


def test_what_is_submitted_is_noted_until_it_ends(build: Path) -> None:
    executor: Any = Executor()
    for number in ("17.1", "snakejob-x", "18"):
        executor.report_job_submission(info(number))
    assert under_way(build) == ["17.1", "snakejob-x", "18"]
    executor.report_job_success(info("17.1"))
    executor.report_job_error(info("18"), msg="killed")
    assert under_way(build) == ["snakejob-x"]
    executor.cancel_jobs([])  # at a moment at which Snakemake asks for states
    assert under_way(build) == ["snakejob-x"], "the plugin does not say whether it is gone"
    assert executor.said[3:] == ["done 17.1", "failed 18: killed", "cancelled snakejob-x"]


def test_a_job_without_a_number_is_not_noted(build: Path) -> None:
    """cluster-generic, where the command to submit prints none."""
    executor: Any = Executor()
    executor.report_job_submission(info(None))
    executor.report_job_success(info(None))
    assert under_way(build) == []


def test_a_job_that_a_person_wants_again_keeps_its_attempt(build: Path) -> None:
    executor: Any = Executor()
    executor.report_job_submission(info("17"))
    batch_jobs.again(build, batch_jobs.read(build)[0].token)
    executor.report_job_error(info("17"))
    assert executor.said[1:] == ["again after attempt 1"]  # Snakemake counts the next one
    assert under_way(build) == []
