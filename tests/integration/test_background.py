"""Runs without a terminal: one that was closed, ``--detach``, ``attach`` and ``cancel``."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.integration.test_killed import alive, slow, tries

__all__ = ["slow"]
pytestmark = pytest.mark.integration

COMMAND = [sys.executable, "-m", "fasthep_smk"]


def ask(folder: Path, *words: str, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    command = [*before, *COMMAND, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_run_goes_on_when_its_terminal_is_closed(slow: Path) -> None:
    """What it says from then on is in a file."""
    ours, theirs = pty.openpty()
    run = subprocess.Popen(
        [*COMMAND, "workflow.yaml"],
        cwd=slow,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        # Whoever has started the tests may ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    os.close(theirs)
    until(lambda: tries(slow))
    refused = ask(slow, "attach")
    assert refused.returncode == 1
    assert "has a terminal of its own" in refused.stderr
    run.send_signal(signal.SIGHUP)
    os.close(ours)
    time.sleep(1)
    assert run.poll() is None
    (slow / "go").touch()
    assert run.wait(timeout=60) == 0
    said = ask(slow, "attach")
    assert said.returncode == 0
    assert "jobs done; results in" in said.stdout
    assert (slow / "build/debug/distributed/run.log").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("before", [[], ["nohup"]], ids=["alone", "nohup"])
def test_a_run_is_detached_when_its_jobs_are_under_way(slow: Path, before: list[str]) -> None:
    """Also where SIGHUP is ignored."""
    started = ask(slow, "workflow.yaml", "--detach", before=before)
    assert started.returncode == 0, started.stderr
    assert "the run goes on as process" in started.stdout
    assert "run in progress" in ask(slow, "status").stdout
    until(lambda: tries(slow))
    attached = subprocess.Popen([*COMMAND, "attach"], cwd=slow, stdout=subprocess.PIPE, text=True)
    time.sleep(1)
    assert attached.poll() is None
    (slow / "go").touch()
    said, _ = attached.communicate(timeout=60)
    assert attached.returncode == 0
    assert "jobs done; results in" in said


def test_a_run_that_is_refused_is_not_detached(slow: Path) -> None:
    workflow = slow / "workflow.yaml"
    workflow.write_text(workflow.read_text().replace("own.slow", "own.slwo", 1))
    refused = ask(slow, "workflow.yaml", "--detach")
    assert refused.returncode == 1
    assert "own.s" in refused.stderr
    assert "goes on" not in refused.stdout
    wrong = ask(slow, "workflow.yaml", "--detach", "-n")
    assert wrong.returncode == 2


def test_cancel_stops_a_run(slow: Path) -> None:
    assert ask(slow, "workflow.yaml", "--detach").returncode == 0
    until(lambda: tries(slow))
    done = ask(slow, "cancel")
    assert done.returncode == 0, done.stderr
    assert "the run was stopped (process " in done.stdout
    assert not any(map(alive, tries(slow)))
    assert "nothing to cancel" in ask(slow, "cancel").stdout
    assert ask(slow, "attach").returncode == 1  # jobs are left
    (slow / "slow").unlink()
    assert ask(slow, "workflow.yaml").returncode == 0
