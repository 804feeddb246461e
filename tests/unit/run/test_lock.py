"""What a call does about a run of the same build folder that was killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fasthep_smk.run import lock
from fasthep_smk.storage import batch_jobs, layout
from fasthep_smk.storage.batch_jobs import BatchJob


@pytest.mark.parametrize("submitted", [True, False])
def test_what_batch_jobs_of_a_killed_run_write_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, submitted: bool
) -> None:
    """Nobody knows whether they go on: no batch system answers here."""
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "none"))
    folders = (layout.WORK, "compile", "graph")
    half = [
        tmp_path / layout.STAGE / "rule/x.1/plot.png",
        *(tmp_path / folder / ".0123456789abcdef.tmp-1" for folder in folders),
    ]
    for path in half:
        path.parent.mkdir(parents=True)
        path.touch()
    job = BatchJob(token="1", record="r", rule="a", key="b", system="slurm", name="a:b")
    if submitted:
        batch_jobs.submitting(tmp_path, job)
        batch_jobs.queued(tmp_path, "1", "17", "")
    descriptor = os.open(tmp_path / layout.LOCK, os.O_RDWR | os.O_CREAT)
    lock._clear_after_crash(tmp_path, descriptor)
    os.close(descriptor)
    assert [path.exists() for path in half] == [submitted] * 4
