"""One job of a pilot: its end, its output, and its part of the pilot's GPUs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fasthep_smk.worker import pilot_task


def test_the_status_and_all_that_is_printed_are_kept(tmp_path: Path) -> None:
    output = tmp_path / "out" / "rule" / "0.log"
    status = pilot_task.run(["sh", "-c", "pwd; echo odd >&2; exit 3"], str(tmp_path), str(output))
    assert status == 3
    assert output.read_text() == f"{tmp_path}\nodd\n"


def test_a_signal_is_a_negative_status(tmp_path: Path) -> None:
    assert pilot_task.run(["sh", "-c", "kill -9 $$"], str(tmp_path), str(tmp_path / "log")) == -9


@pytest.mark.parametrize(
    ("gpus", "rank", "count", "own"),
    [
        ("0,1,2,3", 1, 2, "2,3"),
        ("GPU-a,GPU-b", 0, 2, "GPU-a"),
        ("3", 0, 1, "3"),
        ("0", 1, 2, "0"),  # fewer than jobs: they share it, as the pool says
        ("", 0, 1, ""),
    ],
)
def test_each_job_has_its_own_gpus(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpus: str, rank: int, count: int, own: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
    monkeypatch.setenv("PARSL_WORKER_RANK", str(rank))
    monkeypatch.setenv("PARSL_WORKER_COUNT", str(count))
    output = tmp_path / "log"
    command = 'echo "$CUDA_VISIBLE_DEVICES $PARSL_WORKER_RANK"'
    assert pilot_task.run(["sh", "-c", command], str(tmp_path), str(output)) == 0
    assert output.read_text() == f"{own} \n"


def test_a_job_ends_with_the_process_that_runs_it(tmp_path: Path) -> None:
    code = (
        "from fasthep_smk.worker import pilot_task; "
        f"pilot_task.run(['sh', '-c', 'echo $$; exec sleep 1000'], '.', {str(tmp_path / 'log')!r})"
    )
    worker = subprocess.Popen([sys.executable, "-c", code])
    log = tmp_path / "log"
    while not log.exists() or not log.read_text().endswith("\n"):
        time.sleep(0.05)
    job = int(log.read_text())
    worker.kill()
    worker.wait()
    end = time.monotonic() + 10
    while _lives(job):
        assert time.monotonic() < end
        time.sleep(0.05)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"
