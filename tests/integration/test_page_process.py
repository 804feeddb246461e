"""The process that writes the page of a run: it lives as long as the run, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import Run
from tests.support.forms import some
from tests.support.loaded import loaded_by_a_first_run
from tests.support.own_op import add_own_op
from tests.support.processes import until, working_in

pytestmark = pytest.mark.integration

OWN_OP = """\
import time
from pathlib import Path

SPEC = {"name": "own.op", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}

def run(*, stream, ctx=None):
    Path("runs").touch()
    while Path("wait").exists():
        time.sleep(0.05)
    if Path("fail").exists():
        raise ValueError("as told")
    return stream
"""
WRITER = b"fasthep_smk.contrib.report"


@pytest.fixture
def own(analysis: Path) -> Path:
    """The small analysis with an op that waits, and fails, as it is told to."""
    (analysis / "wait").touch()
    return add_own_op(analysis, OWN_OP)


@pytest.fixture
def run(own: Path) -> Iterator[subprocess.Popen[str]]:
    """A run, as of a terminal: a job of it waits."""
    command = [sys.executable, "-m", "fasthep_smk", "workflow.yaml", "-j", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # Tests that run in the background have Ctrl-C ignored, and so would what they start.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        process = subprocess.Popen(command, cwd=own, text=True, start_new_session=True, **pipes)
    finally:
        signal.signal(signal.SIGINT, before)
    until((own / "runs").exists)
    yield process
    (own / "wait").unlink(missing_ok=True)
    process.kill()
    process.communicate()


def state(folder: Path) -> str:
    """What the page says first of how the run stands."""
    text = (folder / "build/report.html").read_text()
    return text.partition("<title>")[2].partition(":")[0]


def test_one_that_is_killed_is_missed_at_the_end(own: Path, run: subprocess.Popen[str]) -> None:
    (writer,) = working_in(own, WRITER)
    os.kill(writer, signal.SIGKILL)
    (own / "wait").unlink()
    _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    warnings = [line for line in said.splitlines() if "report.html" in line]
    assert warnings == [
        "fasthep-smk: warning: report.html was not written: its process has ended with "
        "signal 9 (killed)"
    ]
    assert not (own / "build/report.html").exists()
    # The next run has nothing to do but this.
    command = [sys.executable, "-m", "fasthep_smk", "workflow.yaml"]
    done = subprocess.run(command, cwd=own, capture_output=True, text=True)
    assert (done.returncode, state(own)) == (0, "finished"), done.stderr
    assert working_in(own, WRITER) == []


def test_ctrl_c_reaches_it_through_the_run_only(own: Path, run: subprocess.Popen[str]) -> None:
    assert len(working_in(own, WRITER)) == 1
    os.killpg(run.pid, signal.SIGINT)
    (own / "wait").unlink()
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130, said
    assert "report.html" not in said
    assert state(own) == "stopped"  # it has written that
    assert working_in(own, WRITER) == []


@pytest.mark.parametrize("number", some([signal.SIGKILL, signal.SIGTERM], 1))
def test_it_ends_with_a_run_that_is_killed(
    own: Path, run: subprocess.Popen[str], number: signal.Signals
) -> None:
    assert len(working_in(own, WRITER)) == 1
    os.kill(run.pid, number)
    if number == signal.SIGTERM:
        os.kill(run.pid, number)  # the first one lets jobs end
    run.wait(30)
    until(lambda: not working_in(own, WRITER), 5)
    assert (own / "build/report.html").exists() == (number == signal.SIGTERM)


def test_it_ends_with_a_run_that_fails(own: Path, run: subprocess.Popen[str]) -> None:
    (own / "fail").touch()
    (own / "wait").unlink()
    _, said = run.communicate(timeout=120)
    assert run.returncode == 1, said
    assert state(own) == "failed"
    assert working_in(own, WRITER) == []


def test_a_run_that_is_refused_starts_none(own: Path, smk: Run) -> None:
    """Nothing is left either where the run ends before a job has begun."""
    (own / "wait").unlink()
    done = smk("workflow.yaml", "--", "--no-such-option", cwd=own)
    assert done.returncode == 1, done.stderr
    assert state(own) == "failed"
    assert working_in(own, WRITER) == []


def test_nobody_but_it_loads_what_writes_the_page() -> None:
    loaded = loaded_by_a_first_run()
    contrib = {
        name: sorted(str(path) for path in files if "contrib" in path.parts)
        for name, files in loaded.items()
    }
    assert any(path.endswith("report/page.py") for path in contrib.pop(WRITER.decode()))
    assert "driver" in contrib
    assert not any(contrib.values()), contrib
