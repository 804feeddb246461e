"""What a call does about a run of the same build folder that was killed."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from pathlib import Path

import pytest

from fasthep_smk.cli import background
from fasthep_smk.run import left_over, lock
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
    left_over.clear_after_crash(tmp_path, descriptor)
    os.close(descriptor)
    assert [path.exists() for path in half] == [submitted] * 4


def holding(path: Path, state: str, seconds: float) -> threading.Thread:
    """Hold a lock, as another process would, whose content says this state."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"state": state, "pid": 1}) if state else "")
    stream = path.open("r+")
    fcntl.flock(stream, fcntl.LOCK_EX)
    thread = threading.Thread(target=lambda: (time.sleep(seconds), stream.close()))
    thread.start()
    return thread


def test_a_run_that_has_ended_is_waited_for_until_it_lets_go(tmp_path: Path) -> None:
    other = holding(tmp_path / layout.LOCK, "ended", 0.5)
    with lock.hold(tmp_path):
        assert not other.is_alive()


def test_a_run_that_goes_on_is_not_waited_for(tmp_path: Path) -> None:
    other = holding(tmp_path / layout.LOCK, "running", 1)
    with pytest.raises(lock.Held), lock.hold(tmp_path):
        pass
    assert other.is_alive()
    other.join()


def test_cancel_waits_for_a_run_that_has_not_said_yet_who_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / layout.RUN).parent.mkdir(parents=True)
    (tmp_path / layout.RUN).write_text("{}")
    holding(tmp_path / layout.LOCK, "", 0.5)
    assert background.cancel(tmp_path) == 0
    said = "nothing to cancel: no run is in progress, and no job is in a queue\n"
    assert capsys.readouterr().out == said
