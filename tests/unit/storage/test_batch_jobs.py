"""What is noted of submissions: of each that may be in a queue, and of no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fasthep_smk.storage import batch_jobs, layout
from fasthep_smk.storage.batch_jobs import BatchJob

JOB = BatchJob(
    token="1", record="smk/work/a/b/record.json", rule="a", key="b", system="slurm", name="a:b"
)


@pytest.fixture
def build(tmp_path: Path) -> Path:
    (tmp_path / "smk").mkdir()
    return tmp_path


def test_a_submission_is_noted_until_its_job_has_ended(build: Path) -> None:
    assert batch_jobs.read(build) == []
    batch_jobs.submitting(build, JOB)
    assert batch_jobs.read(build) == [JOB]
    batch_jobs.queued(build, "1", "17", "out/17.log")
    other = replace(JOB, token="2", record="c")
    batch_jobs.submitting(build, other)
    taken = replace(JOB, batch_id="17", captured="out/17.log")
    assert batch_jobs.read(build) == [taken, other]
    batch_jobs.ended(build, "1")
    assert batch_jobs.read(build) == [other]
    batch_jobs.replace(build, [taken])
    assert batch_jobs.read(build) == [taken]
    batch_jobs.replace(build, [])
    assert not (build / layout.BATCH_JOBS).exists()


def test_a_line_that_was_cut_off_says_nothing(build: Path) -> None:
    batch_jobs.submitting(build, JOB)
    with (build / layout.BATCH_JOBS).open("a") as stream:
        stream.write('{"token": "1", "batch_id": "1')
    assert batch_jobs.read(build) == [JOB]
    other = replace(JOB, token="2", record="c")
    batch_jobs.submitting(build, other)
    assert batch_jobs.read(build) == [JOB, other]


@pytest.mark.parametrize("said", [{"system": "commands"}, {"batch_id": "--all"}])
def test_what_nobody_has_submitted_is_not_asked_for(build: Path, said: dict[str, str]) -> None:
    batch_jobs.submitting(build, replace(JOB, **said))
    assert batch_jobs.read(build) == []
