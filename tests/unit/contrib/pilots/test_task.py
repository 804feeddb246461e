"""One job of a pilot: its end, its output, and its part of the pilot's GPUs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fasthep_smk.contrib.pilots import task
from fasthep_smk.run.fork_server import ForkServer
from fasthep_smk.storage import layout


def test_the_status_and_all_that_is_printed_are_kept(tmp_path: Path) -> None:
    output = tmp_path / "out" / "rule" / "0.log"
    command = ["sh", "-c", "pwd; echo odd >&2; sleep 0.1; exit 3"]
    status, seconds = task.run(command, str(tmp_path), str(output))
    assert status == 3
    assert 0.1 < seconds < 60
    assert output.read_text() == f"{tmp_path}\nodd\n"


def test_a_signal_is_a_negative_status(tmp_path: Path) -> None:
    status, _ = task.run(["sh", "-c", "kill -9 $$"], str(tmp_path), str(tmp_path / "log"))
    assert status == -9


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
    status, _ = task.run(["sh", "-c", command], str(tmp_path), str(output))
    assert status == 0
    assert output.read_text() == f"{own} \n"


def test_a_job_ends_with_the_process_that_runs_it(tmp_path: Path) -> None:
    code = (
        "from fasthep_smk.contrib.pilots import task; "
        f"task.run(['sh', '-c', 'echo $$; exec sleep 1000'], '.', {str(tmp_path / 'log')!r})"
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


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A fork server of a pilot's own, which this process is told of."""
    running = ForkServer(dict(os.environ))
    for name, value in running.variables.items():
        monkeypatch.setenv(name, value)
    end = time.monotonic() + 60
    while not Path(os.environ[layout.FORK_SERVER]).exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    yield
    running.end()


def job(log: str, attempt: str = "2", threads: str = "1") -> list[str]:
    """The command of a job of a rule that this build folder does not have."""
    return ["sh", layout.WORKER, layout.ALONE, "1.0", log, attempt, threads, "no_such_rule"]


@pytest.mark.usefixtures("server")
def test_a_job_of_ours_goes_to_the_fork_server(tmp_path: Path) -> None:
    """Without ``smk/worker``, which this folder does not have either; its log is as it makes it."""
    (tmp_path / "a.log").write_text("of an earlier attempt\n")
    status, _ = task.run(job("a.log"), str(tmp_path), str(tmp_path / "out"))
    assert status == 2
    text = (tmp_path / "a.log").read_text()
    assert "no such job" in text
    assert "earlier" not in text
    assert (tmp_path / "a.attempt2.log").samefile(tmp_path / "a.log")
    assert (tmp_path / "out").read_text() == ""


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(("threads", "image"), [("2", ""), ("1", "image.sif")])
def test_others_are_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: str, image: str
) -> None:
    """With several cpus, or in a container."""
    monkeypatch.setenv("APPTAINER_CONTAINER", image)
    (tmp_path / "smk").mkdir()
    (tmp_path / layout.WORKER).write_text('echo "started $*"')
    command = job("a.log", threads=threads)
    assert task.run(command, str(tmp_path), str(tmp_path / "out"))[0] == 0
    assert (tmp_path / "out").read_text() == f"started {' '.join(command[2:])}\n"
