"""What operations write gets its place when the job has succeeded, all of it or nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fasthep_smk.util import files
from fasthep_smk.worker.job import WorkerJob, staging
from fasthep_smk.worker.limits import bytes_moved
from tests.support import tables


@pytest.fixture
def job(tmp_path: Path) -> WorkerJob:
    return tables.job(tmp_path, "r", "partition", "k")


def test_files_are_moved_when_the_job_has_succeeded(job: WorkerJob) -> None:
    with staging(job) as folder:
        (folder / "artifacts").mkdir()
        (folder / "artifacts" / "skim.root").write_text("events")
        assert not (job.build / "artifacts").exists()
    assert (job.build / "artifacts" / "skim.root").read_text() == "events"
    assert job.results == ["artifacts/skim.root"]
    assert not list((job.build / "smk" / "stage").rglob("*.*"))


def test_after_a_failure_only_diagnostics_are_kept(job: WorkerJob) -> None:
    with pytest.raises(ValueError, match="no"), staging(job) as folder:
        for name in ("artifacts/skim.root", "reports/diagnostics/why.json"):
            (folder / name).parent.mkdir(parents=True)
            (folder / name).write_text("{}")
        raise ValueError("no")
    assert (job.build / "reports/diagnostics/why.json").exists()
    assert not (job.build / "artifacts").exists()


@pytest.mark.parametrize("writes_on", [False, True])
def test_a_job_that_was_taken_for_dead_does_not_succeed(job: WorkerJob, writes_on: bool) -> None:
    """Its next attempt, or a later run, has removed what it had written."""
    with pytest.raises(FileNotFoundError), staging(job) as folder:
        (folder / "skim.root").write_text("events")
        files.discard(job.build / "smk" / "stage")
        if writes_on:
            folder.mkdir(parents=True)
            (folder / "plot.png").write_text("plot")
    assert not (job.build / "plot.png").exists()
    assert not (job.build / "skim.root").exists()


def test_the_next_attempt_takes_the_place_of_one_that_was_killed(job: WorkerJob) -> None:
    left = job.build / "smk" / "stage" / "r" / "k.999999"
    left.mkdir(parents=True)
    (left / "half").write_text("ha")
    with staging(job):
        assert not left.exists()
    shutil.rmtree(job.build / "smk" / "stage" / "r")  # nothing else is in the way


@pytest.mark.parametrize("by_child", [False, True])
def test_what_a_job_reads_and_writes_is_its_own_and_that_of_its_children(
    tmp_path: Path, by_child: bool
) -> None:
    source, goal = tmp_path / "source", tmp_path / "goal"
    source.write_bytes(bytes(3_000_000))
    before = bytes_moved()
    if by_child:
        subprocess.run(["dd", f"if={source}", f"of={goal}", "bs=1M", "status=none"], check=True)
    else:
        goal.write_bytes(source.read_bytes())
    after = bytes_moved()
    assert before is not None and after is not None
    read, written = (now - was for now, was in zip(after, before, strict=True))
    assert 3_000_000 <= written < 3_100_000
    assert 3_000_000 <= read < 3_100_000
