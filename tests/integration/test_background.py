"""Runs without a terminal: one that was closed, and ``cancel``."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.test_killed import alive, slow, tries
from tests.support.processes import until

__all__ = ["slow"]
pytestmark = pytest.mark.integration

COMMAND = [sys.executable, "-m", "fasthep_smk"]


def ask(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


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
    run.send_signal(signal.SIGHUP)
    os.close(ours)
    time.sleep(1)
    assert run.poll() is None
    (slow / "go").touch()
    assert run.wait(timeout=60) == 0
    log = slow / "build/debug/distributed/run.log"
    assert "jobs done; results in" in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


def test_cancel_stops_a_run(slow: Path) -> None:
    run = subprocess.Popen([*COMMAND, "workflow.yaml"], cwd=slow, start_new_session=True)
    until(lambda: tries(slow))
    assert "run in progress" in ask(slow, "status").stdout
    done = ask(slow, "cancel")
    assert run.wait(timeout=60) == 130
    assert done.returncode == 0, done.stderr
    assert "the run was stopped (process " in done.stdout
    assert not any(map(alive, tries(slow)))
    assert "nothing to cancel" in ask(slow, "cancel").stdout
    (slow / "slow").unlink()
    assert ask(slow, "workflow.yaml").returncode == 0
