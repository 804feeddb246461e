"""A run is killed while its jobs run and wait on a real HTCondor: the next call takes them over."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clusters import analyses
from tests.clusters.conftest import Cluster
from tests.clusters.test_htcondor import (
    Run,
    in_trouble,
    is_empty_within,
    nothing_runs_on,
    queue,
    right,
    tries,
)
from tests.support.forms import LONG

__all__ = ["nothing_runs_on", "right"]
pytestmark = [pytest.mark.integration, pytest.mark.cluster, pytest.mark.xdist_group("htcondor")]

_IDLE, _RUNNING, _HELD = 1, 2, 5
HOLD = {"config": {"htcondor": {"submit": {"hold": True}}}}


def kill(run: Run, folder: Path, *, snakemake: bool = True) -> None:
    """Kill a run with its Snakemake, or let that go on alone."""
    lock = json.loads((folder / "build/smk/lock").read_text())
    run.process.kill()
    if snakemake:
        os.kill(lock["snakemake"], signal.SIGKILL)
    run.process.wait(timeout=10)


def one_runs_one_waits(htcondor: Cluster) -> tuple[Path, Run, list[str]]:
    """A run of three jobs, all submitted on hold; one has finished, one runs, one is held."""
    folder = in_trouble(htcondor, files=3, pool=HOLD, settings={"htcondor-held-timeout": 300})
    run = Run(htcondor, folder)
    run.until(lambda: list(queue(htcondor, folder).values()).count(_HELD) == 3)
    first, second, third = sorted(queue(htcondor, folder), key=int)
    htcondor.run("condor_release", first)
    run.until(lambda: first not in queue(htcondor, folder))
    run.until(lambda: "[1/" in run.said)
    analyses.set_mood(folder, sleep=120)
    htcondor.run("condor_release", second)
    run.until_tried(2)
    return folder, run, [second, third]


def released(htcondor: Cluster, folder: Path, run: Run) -> str:
    """What a run says that ends as soon as what sleeps is woken and all that is held released."""
    analyses.set_mood(folder, awake=True)
    end = time.monotonic() + 120
    while run.process.poll() is None and time.monotonic() < end:
        held = [job for job, status in queue(htcondor, folder).items() if status == _HELD]
        if held:
            htcondor.run("condor_release", *held)
        time.sleep(0.5)
    return run.ended()


def batch_jobs(folder: Path) -> set[str]:
    found = analyses.records(folder / "build")
    return {one["batch_job"] for one in found if "Moody" in one["rule"]}


# The other case on Slurm: what differs between them is no matter of the batch system.
@pytest.mark.parametrize(
    "snakemake",
    [
        pytest.param(True, id="all of it", marks=LONG),
        pytest.param(False, id="but for Snakemake"),
    ],
)
def test_jobs_of_a_killed_run_go_on(
    htcondor: Cluster, right: Callable[[Path], list[str]], snakemake: bool
) -> None:
    """What runs and what waits is taken over: no job is computed twice, none loses its place."""
    folder, run, left = one_runs_one_waits(htcondor)
    kill(run, folder, snakemake=snakemake)
    again = Run(htcondor, folder)
    again.until(lambda: "2 jobs of an earlier run go on: 1 running, 1 waiting" in again.said)
    assert set(left) <= set(queue(htcondor, folder))
    released(htcondor, folder, again)
    assert len(tries(folder)) == 3
    assert set(left) <= batch_jobs(folder)
    assert not (folder / "twice.txt").exists()
    assert not right(folder)
    assert is_empty_within(htcondor, folder, 15)


@LONG  # shorter: the next test cancels a job that runs, and Slurm's one that waits
def test_cancel_leaves_no_job_of_an_earlier_run(
    htcondor: Cluster, right: Callable[[Path], list[str]]
) -> None:
    folder, run, left = one_runs_one_waits(htcondor)
    kill(run, folder)
    analyses.set_mood(folder)
    again = Run(htcondor, folder, "--cancel")
    again.until(lambda: "2 jobs of an earlier run cancelled" in again.said)
    released(htcondor, folder, again)
    assert not set(left) & batch_jobs(folder)
    assert not (folder / "twice.txt").exists()
    assert not right(folder)


def test_jobs_for_another_workflow_are_cancelled_first(htcondor: Cluster) -> None:
    """A stage was edited after the kill: what was submitted before is no result of it."""
    folder = in_trouble(htcondor, sleep=25)
    run = Run(htcondor, folder)
    run.until_tried()
    kill(run, folder)
    analyses.set_mood(folder)
    workflow = folder / "workflow.yaml"
    workflow.write_text(workflow.read_text().replace("nbins: 20", "nbins: 10"))
    said = Run(htcondor, folder).ended()
    assert "1 job of an earlier run cancelled: this run does not need them" in said
    assert len(tries(folder)) == 2
    assert not (folder / "twice.txt").exists()
