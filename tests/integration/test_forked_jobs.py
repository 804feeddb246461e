"""Jobs forked by the fork server are as good as cold ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fasthep_smk.storage.layout import FORK_SERVER
from tests.integration.conftest import Run
from tests.integration.test_killed import alive, snakemake_of
from tests.support.compare import compare_builds
from tests.support.own_op import add_own_op
from tests.support.processes import until

pytestmark = pytest.mark.integration

OWN_OP = """\
import json, os, random, threading, time
from pathlib import Path
import numpy as np

SPEC = {"name": "own.op", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}

def run(*, stream, ctx=None):
    drawn = [random.random(), float(np.random.random()), os.getpid()]
    with Path("drawn.txt").open("a") as out:
        out.write(json.dumps([ctx["dataset_name"], drawn]) + "\\n")
    while Path("wait").exists():
        time.sleep(0.05)
    return stream
"""


@pytest.fixture
def own(analysis: Path) -> Path:
    """The small analysis with an op that draws random numbers, and waits if it is told to."""
    return add_own_op(analysis, OWN_OP)


@pytest.fixture
def smk_process() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start ``fasthep-smk`` with these arguments in a folder; it is killed if the test fails."""
    started = []

    def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "fasthep_smk", *arguments]
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        started.append(subprocess.Popen(command, cwd=cwd, text=True, **both))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def records(build: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in build.glob("smk/work/**/record.json")]


def drawn(folder: Path) -> list[Any]:
    path = folder / "drawn.txt"
    return [json.loads(line)[1] for line in path.read_text().splitlines()] if path.exists() else []


def warm_workers(folder: Path) -> list[int]:
    """The processes that fork jobs for runs below a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if b"fasthep_smk.worker.fork_server" in words and (
                Path(f"/proc/{parent}/cwd")
            ).samefile(folder):
                found.append(int(process.name))
        except (OSError, ValueError, IndexError):
            continue
    return found


def test_results_are_those_of_cold_jobs(
    own: Path, smk: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert smk("workflow.yaml", "-j", "2", "-o", "warm", cwd=own).returncode == 0
    monkeypatch.setenv(FORK_SERVER, "")
    assert smk("workflow.yaml", "-j", "2", "-o", "cold", cwd=own).returncode == 0
    assert {record["used"]["warm"] for record in records(own / "warm")} == {True}
    assert {record["used"]["warm"] for record in records(own / "cold")} == {False}
    assert not compare_builds(own / "cold", own / "warm")


def test_each_job_draws_numbers_of_its_own(own: Path, smk: Run) -> None:
    assert smk("workflow.yaml", "-j", "2", cwd=own).returncode == 0
    first, second, processes = zip(*drawn(own), strict=True)
    assert len(set(first)) == len(set(second)) == len(set(processes)) == 3


def test_memory_and_time_are_the_jobs_own(own: Path, smk: Run) -> None:
    assert smk("workflow.yaml", "-j", "2", cwd=own).returncode == 0
    (finish,) = [one for one in records(own / "build") if one["rule"] == "finish"]
    assert finish["used"]["memory"] > 50_000_000
    assert 0 < finish["used"]["cpu"] < 60


def test_a_job_that_was_given_more_cpus_starts_cold(own: Path, smk: Run) -> None:
    workflow = own / "workflow.yaml"
    pools = "execution: {pools: {default: {resources: {cpus: 2}}}}\n"
    workflow.write_text(pools + workflow.read_text())
    assert smk("workflow.yaml", "--shrink-to-fit", cwd=own).returncode == 0
    cold = [one["rule"] for one in records(own / "build") if not one["used"]["warm"]]
    assert cold
    assert all(one["threads"] > 1 for one in records(own / "build") if not one["used"]["warm"])


def test_who_forks_has_one_thread_and_its_death_costs_nothing(
    own: Path, smk_process: Callable[..., subprocess.Popen[str]]
) -> None:
    (own / "wait").touch()
    run = smk_process("workflow.yaml", "-j", "2", cwd=own)
    until(lambda: len(drawn(own)) >= 2)
    (worker,) = [pid for pid in warm_workers(own) if pid not in [one[2] for one in drawn(own)]]
    assert len(list(Path(f"/proc/{worker}/task").iterdir())) == 1
    os.kill(worker, signal.SIGKILL)
    until(lambda: len(drawn(own)) >= 4)  # both started again, each in a Python of its own
    (own / "wait").unlink()
    said, _ = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert {one["used"]["warm"] for one in records(own / "build")} == {False}


def end_snakemake(folder: Path, run: subprocess.Popen[str]) -> None:
    """Kill the Snakemake of a run, and return when the run has said what becomes of its jobs."""
    pid = snakemake_of(folder)
    children = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    assert "".join(children) == ""  # neither a shell nor a client for each job
    os.kill(pid, signal.SIGKILL)
    assert run.stdout is not None
    assert any("waiting for 2 jobs under way" in line for line in run.stdout)


def test_jobs_go_on_when_only_snakemake_is_killed(
    own: Path, smk: Run, smk_process: Callable[..., subprocess.Popen[str]]
) -> None:
    (own / "wait").touch()
    run = smk_process("workflow.yaml", "-j", "2", cwd=own)
    until(lambda: len(drawn(own)) == 2)
    end_snakemake(own, run)
    (own / "wait").unlink()
    said, _ = run.communicate(timeout=120)
    assert run.returncode == 1
    assert "Snakemake was ended by signal 9 (killed): finished jobs are kept" in said
    assert len(records(own / "build")) == 2
    assert smk("workflow.yaml", cwd=own).returncode == 0
    assert len(drawn(own)) == 3  # neither ran again


def test_ctrl_c_ends_the_jobs_of_a_snakemake_that_was_killed(
    own: Path, smk_process: Callable[..., subprocess.Popen[str]]
) -> None:
    (own / "wait").touch()
    run = smk_process("workflow.yaml", "-j", "2", cwd=own)
    until(lambda: len(drawn(own)) == 2)
    end_snakemake(own, run)
    run.send_signal(signal.SIGINT)
    assert run.wait(60) == 130
    until(lambda: not any(alive(one[2]) for one in drawn(own)))


@pytest.mark.long
def test_a_killed_job_is_named_and_the_others_stay(
    own: Path, smk: Run, smk_process: Callable[..., subprocess.Popen[str]]
) -> None:
    (own / "wait").touch()
    run = smk_process("workflow.yaml", "-j", "1", cwd=own)
    (job,) = until(lambda: drawn(own))
    os.kill(job[2], signal.SIGKILL)
    said, _ = run.communicate(timeout=120)
    assert run.returncode == 1
    assert "failed: signal 9 (killed): usually because memory ran out" in said
    (own / "wait").unlink()
    assert smk("workflow.yaml", "-j", "2", cwd=own).returncode == 0
