"""What is prestarted is used by the run, or ends without a trace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fasthep_smk.run.prestart import is_likely_idle
from fasthep_smk.storage.layout import FORK_SERVER
from tests.integration.conftest import Run
from tests.support.forms import some
from tests.support.own_op import add_own_op
from tests.support.processes import until, working_in

pytestmark = pytest.mark.integration

OWN_OP = """\
import json, os, sys, time
from pathlib import Path

SPEC = {"name": "own.op", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}

Path("compiles").touch()
while Path("compile").exists():
    time.sleep(0.05)
if Path("variable").exists():
    os.environ["OWN_VARIABLE"] = "set"

def run(*, stream, ctx=None):
    there = "matplotlib" in sys.modules
    if Path("slow").exists() and not there:
        time.sleep(5)  # the fork server has nothing else to do
    import matplotlib
    said = {
        "backend": matplotlib.get_backend(),
        "folder": matplotlib.get_configdir(),
        "width": matplotlib.rcParams["lines.linewidth"],
        "variable": os.environ.get("OWN_VARIABLE"),
        "there": there,
    }
    Path("seen", ctx["dataset_name"] + ".json").write_text(json.dumps(said))
    while Path("wait").exists():
        time.sleep(0.05)
    if Path("fail").exists():
        raise ValueError("as told")
    return stream
"""


@pytest.fixture
def own(analysis: Path) -> Path:
    """The small analysis with an op whose import, and run, wait as long as they are told to."""
    (analysis / "seen").mkdir()
    return add_own_op(analysis, OWN_OP)


@pytest.fixture
def start() -> Iterator[Callable[[Path], subprocess.Popen[str]]]:
    """Start a run in a folder, and return when its workflow is being compiled."""
    started: list[subprocess.Popen[str]] = []

    def run(folder: Path) -> subprocess.Popen[str]:
        (folder / "compile").touch()
        command = [sys.executable, "-m", "fasthep_smk", "workflow.yaml", "-j", "2"]
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        # Tests that run in the background have Ctrl-C ignored, and so would what they start.
        before = signal.signal(signal.SIGINT, signal.SIG_DFL)
        try:
            started.append(subprocess.Popen(command, cwd=folder, text=True, **both))
        finally:
            signal.signal(signal.SIGINT, before)
        until((folder / "compiles").exists)
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def waiting(folder: Path) -> int:
    """The Snakemake that waits to be told."""
    return int(until(lambda: working_in(folder, b"--told-by"))[0])


def snakemake_of(folder: Path) -> int | None:
    said = json.loads((folder / "build" / "smk" / "lock").read_text())
    return None if "snakemake" not in said else int(said["snakemake"])


def test_the_run_is_that_of_what_waited(
    own: Path, start: Callable[[Path], subprocess.Popen[str]]
) -> None:
    run = start(own)
    early = waiting(own)
    (own / "wait").touch()
    (own / "compile").unlink()
    assert until(lambda: snakemake_of(own)) == early
    (own / "wait").unlink()
    said, _ = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert working_in(own) == []


def test_a_file_that_cannot_be_looked_at_is_no_matter(own: Path) -> None:
    """``a.py`` is beside the workflow, but not one of its files."""
    workflow, build = own / "workflow.yaml", own / "build"
    record = build / "smk/work/finish/record.json"
    record.parent.mkdir(parents=True)
    record.touch()
    os.utime(record, (2e9, 2e9))
    (own / "a.py").symlink_to(f"{own}/{'long' * 100}/a.py")  # as behind a folder of others
    assert is_likely_idle(workflow, build)
    os.utime(workflow, (3e9, 3e9))
    assert not is_likely_idle(workflow, build)


def test_a_failed_run_leaves_nothing(own: Path, smk: Run) -> None:
    (own / "fail").touch()
    done = smk("workflow.yaml", "-j", "2", cwd=own)
    assert done.returncode == 1
    assert "as told" in done.stderr
    assert working_in(own) == []


@pytest.mark.parametrize("number", some([signal.SIGINT, signal.SIGTERM, signal.SIGKILL], 1))
def test_a_run_that_is_stopped_while_it_compiles_leaves_nothing(
    own: Path, smk: Run, start: Callable[[Path], subprocess.Popen[str]], number: signal.Signals
) -> None:
    run = start(own)
    waiting(own)
    run.send_signal(number)
    run.communicate(timeout=60)
    assert run.returncode == (130 if number == signal.SIGINT else -number)
    until(lambda: not working_in(own), 20)
    (own / "compile").unlink()
    done = smk("workflow.yaml", "-j", "2", cwd=own)
    assert done.returncode == 0, done.stderr


def test_a_refused_workflow_leaves_nothing(own: Path, smk: Run) -> None:
    text = (own / "workflow.yaml").read_text()
    (own / "workflow.yaml").write_text(text.replace("met > 5", "no_such_column > 5"))
    assert smk("workflow.yaml", cwd=own).returncode == 1
    assert working_in(own) == []


def test_who_waited_and_was_killed_is_not_missed(
    own: Path, start: Callable[[Path], subprocess.Popen[str]]
) -> None:
    run = start(own)
    os.kill(waiting(own), signal.SIGKILL)
    (own / "compile").unlink()
    said, _ = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert working_in(own) == []


def test_a_variable_that_a_module_sets_is_the_jobs_too(
    own: Path, start: Callable[[Path], subprocess.Popen[str]]
) -> None:
    (own / "variable").touch()
    (own / "wait").touch()
    run = start(own)
    early = waiting(own)
    (own / "compile").unlink()
    assert until(lambda: snakemake_of(own)) != early
    (own / "wait").unlink()
    (own / "variable").unlink()  # it is inherited, not set again
    said, _ = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert working_in(own) == []
    seen = [json.loads(path.read_text()) for path in (own / "seen").iterdir()]
    assert [one["variable"] for one in seen] == ["set"] * 2


def test_a_run_with_nothing_to_do_starts_nothing(own: Path, smk: Run) -> None:
    assert smk("workflow.yaml", "-j", "2", cwd=own).returncode == 0
    tried = own / "tried"
    interpreter = f'#!/bin/sh\necho "$@" >>"{tried}"\nexec "{sys.executable}" "$@"\n'
    (own / "python").write_text(interpreter)
    (own / "python").chmod(0o755)
    code = (
        f"import sys; sys.executable = {str(own / 'python')!r}; "
        "from fasthep_smk.cli.main import main; sys.exit(main(['workflow.yaml', '-j', '2']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=own, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "everything was up to date" in done.stdout
    assert not tried.exists()
    assert working_in(own) == []
    # And the other way round: a file that is newer than the last result.
    os.utime(own / "workflow.yaml")
    subprocess.run([sys.executable, "-c", code], cwd=own, capture_output=True, check=True)
    assert "--told-by" in tried.read_text()
    assert working_in(own) == []


def test_plots_are_set_up_as_in_a_cold_job(
    own: Path, smk: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the fork server has imported matplotlib, with a folder's and a user's settings."""
    (own / "matplotlibrc").write_text("lines.linewidth: 7\n")
    (own / "settings").mkdir()
    monkeypatch.setenv("MPLBACKEND", "svg")
    monkeypatch.setenv("MPLCONFIGDIR", str(own / "settings"))
    seen = {}
    for name in ("", "warm"):
        monkeypatch.setenv(FORK_SERVER, "") if not name else monkeypatch.delenv(FORK_SERVER)
        (own / "slow").touch() if name else None
        assert smk("workflow.yaml", "-j", "1", "-o", f"build_{name}", cwd=own).returncode == 0
        seen[name] = {path.name: json.loads(path.read_text()) for path in (own / "seen").iterdir()}
    there = {name: [one.pop("there") for one in found.values()] for name, found in seen.items()}
    assert not any(there[""])
    assert any(there["warm"])
    assert seen[""] == seen["warm"]
    (one, *_) = seen["warm"].values()
    assert one["backend"].lower() == "svg"
    assert one["width"] == 7
    assert one["folder"] == str(own / "settings")
