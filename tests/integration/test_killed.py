"""Runs that are killed, and runs that meet on one build folder."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.conftest import Run
from tests.support.forms import some

pytestmark = pytest.mark.integration

SLOW = """\
import os, time
SPEC = {"name": "own.slow", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}


def run(*, stream, ctx=None, **_):
    with open("tries.txt", "a") as tries:
        tries.write(f"{ctx['dataset_name']} {os.getpid()}\\n")
    end = time.monotonic() + (60 if os.path.exists("slow") else 0)
    while not os.path.exists("go") and time.monotonic() < end:
        time.sleep(0.05)
    return stream
"""


#: What writes into the build folder.
COMMANDS = (("workflow.yaml",), ("translate", "workflow.yaml"), ("why", "workflow.yaml"))


@pytest.fixture
def slow(analysis: Path) -> Iterator[Path]:
    """The small analysis with a stage that takes a minute, or until the file ``go`` exists.

    Without the file ``slow`` it takes no time.
    """
    (analysis / "own_ops.py").write_text(SLOW)
    (analysis / "slow").touch()
    workflow = yaml.safe_load((analysis / "workflow.yaml").read_text())
    workflow["registry"] = {
        "transforms": {"own.slow": {"spec": "own_ops:SPEC", "impl": "own_ops:run"}}
    }
    workflow["analysis"]["stages"].insert(0, {"id": "Slow", "op": "own.slow"})
    (analysis / "workflow.yaml").write_text(yaml.safe_dump(workflow))
    yield analysis
    for pid in tries(analysis):  # whatever a failed test left
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


def start(folder: Path) -> subprocess.Popen[str]:
    """Start a run, and return when one of its jobs is in the slow stage."""
    process = subprocess.Popen(
        [sys.executable, "-m", "fasthep_smk", "workflow.yaml", "-j", "2"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wait_for(lambda: len(tries(folder)) >= 2, 60)
    return process


def stop(process: subprocess.Popen[str]) -> None:
    """Stop a run at once, as two Ctrl-C do."""
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 130


def tries(folder: Path) -> list[int]:
    file = folder / "tries.txt"
    return [int(line.split()[1]) for line in file.read_text().splitlines()] if file.exists() else []


def wait_for(condition: Callable[[], Any], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def snakemake_of(folder: Path) -> int:
    return int(json.loads((folder / "build" / "smk" / "lock").read_text())["snakemake"])


def test_a_second_run_is_told_who_works_there(slow: Path, smk: Run) -> None:
    first = start(slow)
    for command in (*COMMANDS, ("workflow.yaml", "-n")):
        second = smk(*command, cwd=slow)
        assert second.returncode == 1
        assert f"another run is in progress in {slow / 'build'}" in second.stderr
        assert f"process {first.pid} on " in second.stderr
    for word in ("check", "explain"):  # which write nothing there
        done = smk(word, "workflow.yaml", cwd=slow)
        assert done.returncode == 0, done.stderr
    stop(first)


@pytest.mark.long
def test_a_run_of_snakemake_alone_is_not_disturbed(slow: Path, smk: Run) -> None:
    assert smk("translate", "workflow.yaml", cwd=slow).returncode == 0
    command = [sys.executable, "-m", "snakemake", "--profile", "smk/profile"]
    first = subprocess.Popen(command, cwd=slow / "build", start_new_session=True)
    wait_for(lambda: len(tries(slow)) >= 2, 60)
    for command in COMMANDS:
        second = smk(*command, cwd=slow)
        assert second.returncode == 1
        assert f"another run is in progress in {slow / 'build'}" in second.stderr
        assert f"process {first.pid}, Snakemake" in second.stderr
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    (slow / "slow").unlink()
    done = smk("workflow.yaml", cwd=slow)
    assert done.returncode == 0, done.stderr
    assert "that no longer runs on this machine" in done.stderr


@pytest.mark.parametrize("victims", some(["wrapper", "wrapper and snakemake", "all"], 1))
def test_the_next_call_goes_on_after_a_kill(slow: Path, smk: Run, victims: str) -> None:
    run = start(slow)
    snakemake, jobs = snakemake_of(slow), tries(slow)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    if victims != "wrapper":
        os.kill(snakemake, signal.SIGKILL)
    if victims == "all":
        for pid in jobs:
            os.kill(pid, signal.SIGKILL)
    (slow / "slow").unlink()

    done = smk("workflow.yaml", cwd=slow)
    assert done.returncode == 0, done.stderr
    assert not [pid for pid in (snakemake, *jobs) if alive(pid)]
    assert (slow / "build" / "artifacts" / "histograms" / "Met.pkl").exists()
    assert len(tries(slow)) == len(jobs) + 3  # nothing had finished; each partition ran once more
    assert "Nothing to do" in smk("workflow.yaml", "-n", cwd=slow).stdout


def test_a_job_that_is_killed_is_named_with_its_events(slow: Path, smk: Run) -> None:
    run = start(slow)
    os.kill(tries(slow)[0], signal.SIGKILL)
    (slow / "go").touch()
    said, _ = run.communicate(timeout=90)
    assert run.returncode == 1
    named = "signal 9 (killed): usually because memory ran out"
    assert f"stage 'Slow' (own.slow) failed: {named}" in said
    assert "data/" in said
    assert "pool 'default' on " in said
    done = smk("workflow.yaml", cwd=slow)
    assert done.returncode == 0, done.stderr


def test_snakemake_that_is_killed_is_named_and_its_jobs_have_not_failed(
    slow: Path, smk: Run
) -> None:
    run = start(slow)
    os.kill(snakemake_of(slow), signal.SIGKILL)
    for pid in tries(slow):  # jobs would go on, and what they finish would count
        os.kill(pid, signal.SIGKILL)
    said, _ = run.communicate(timeout=90)
    assert run.returncode == 1
    assert "Snakemake was ended by signal 9 (killed): finished jobs are kept" in said
    assert "2 jobs will run again" in said
    assert "failed" not in said
    (slow / "slow").unlink()
    assert smk("workflow.yaml", cwd=slow).returncode == 0


def test_snakemake_that_crashes_says_where(slow: Path) -> None:
    run = start(slow)
    os.kill(snakemake_of(slow), signal.SIGSEGV)
    for pid in tries(slow):
        os.kill(pid, signal.SIGKILL)
    said, _ = run.communicate(timeout=90)
    assert run.returncode == 1
    assert "Snakemake was ended by signal 11 (segmentation fault): finished jobs are kept" in said
    assert re.search(r'\n +at: +File ".*", line \d+ in \w+', said)


def test_a_refused_workflow_leaves_no_build_folder(slow: Path, smk: Run) -> None:
    (slow / "workflow.yaml").write_text("analysis: {stages: [{id: A}]}\n")
    assert smk("workflow.yaml", cwd=slow).returncode == 1
    assert not (slow / "build").exists()


INTERRUPTED = """\
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # pytest may be in the background


class Finder:
    def find_spec(self, name, *_):
        if name == os.environ["INTERRUPTED_AT"]:
            os.kill(os.getpid(), signal.SIGINT)


sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize(
    ("module", "imports"),
    [
        ("fasthep_smk", "fasthep_smk.cli.main"),
        ("fasthep_smk", "fasthep_smk.cli.parser"),
        ("fasthep_smk.worker", "fasthep_smk.worker.runner"),
    ],
)
def test_ctrl_c_during_the_imports_prints_no_traceback(
    tmp_path: Path, module: str, imports: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTED)
    done = subprocess.run(
        [sys.executable, "-m", module, "check"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "INTERRUPTED_AT": imports},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout + done.stderr) == (-signal.SIGINT, "")
