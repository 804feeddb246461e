"""A run is killed while its jobs run and wait on a real Slurm: the next call takes them over."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.clusters.analyses import FASTHEP_SMK, records, set_mood
from tests.clusters.conftest import Cluster
from tests.clusters.test_slurm import (
    Run,
    at,
    in_trouble,
    is_right,
    jobs_of,
    local_run,
    moody_reference,
    tries,
)
from tests.support.forms import LONG

__all__ = ["moody_reference"]
pytestmark = [pytest.mark.integration, pytest.mark.cluster, pytest.mark.xdist_group("slurm")]

HOLD = {"extra": ["--hold"]}


def kill(run: Run, folder: Path, *, snakemake: bool = True) -> None:
    """Kill a run with its Snakemake, or let that go on alone."""
    lock = json.loads((folder / "build/smk/lock").read_text())
    run.process.kill()
    if snakemake:
        os.kill(lock["snakemake"], signal.SIGKILL)
    run.process.wait(timeout=10)


def one_runs_one_waits(slurm: Cluster) -> tuple[Path, Run, list[str]]:
    """A run of three jobs, all submitted on hold; one has finished, one runs, one waits."""
    folder = in_trouble(slurm, slurm_options=HOLD)
    run = Run(slurm, folder / "workflow.yaml")
    run.until(lambda: len(jobs_of(slurm, folder, "PENDING")) == 3)
    first, second, third = sorted(jobs_of(slurm, folder), key=int)
    slurm.run("scontrol", "release", first)
    run.says("[1/", 60)
    set_mood(folder, sleep=120)
    slurm.run("scontrol", "release", second)
    run.until(lambda: sum(tries(folder).values()) == 2)
    return folder, run, [second, third]


def released(slurm: Cluster, folder: Path, run: Run) -> str:
    """What a run says that ends as soon as what sleeps is woken and all that waits is released."""
    set_mood(folder, awake=True)
    end = time.monotonic() + 120
    while run.process.poll() is None and time.monotonic() < end:
        for job in jobs_of(slurm, folder, "PENDING"):
            slurm.run("scontrol", "release", job)
        time.sleep(0.5)
    return run.ended()


def never_twice(folder: Path) -> bool:
    return not (folder / "twice.txt").exists()


def batch_jobs(folder: Path) -> set[str]:
    """The jobs of the moody rule that have records, by Slurm's numbers."""
    return {one["batch_job"] for one in records(folder / "build") if "Moody" in one["rule"]}


def gone(slurm: Cluster, folder: Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while jobs_of(slurm, folder):
        assert time.monotonic() < end
        time.sleep(0.5)


# Shorter: below, where the last submission has left no answer, and on HTCondor but for Snakemake.
@LONG
@pytest.mark.parametrize("snakemake", [True, False], ids=["all", "not Snakemake"])
def test_jobs_of_a_killed_run_go_on(slurm: Cluster, moody_reference: Path, snakemake: bool) -> None:
    """What runs and what waits is taken over: no job is computed twice, none loses its place."""
    folder, run, left = one_runs_one_waits(slurm)
    kill(run, folder, snakemake=snakemake)
    again = Run(slurm, folder / "workflow.yaml")
    again.says("2 jobs of an earlier run go on: 1 running, 1 waiting")
    assert set(left) <= set(jobs_of(slurm, folder))
    released(slurm, folder, again)
    assert sum(tries(folder).values()) == 3
    assert set(left) <= batch_jobs(folder)
    assert never_twice(folder)
    is_right(folder, moody_reference)
    assert not (folder / "build/smk/batch_jobs.jsonl").exists()


def test_jobs_go_on_when_snakemake_alone_is_killed(slurm: Cluster, moody_reference: Path) -> None:
    """The run says so, and which job waits where; the next call takes them over."""
    folder, run, left = one_runs_one_waits(slurm)
    shown = slurm.run("squeue", "--noheader", "--format=%j", f"--jobs={left[1]}").stdout
    name = shown.strip()
    assert name.removeprefix("stages_Moody_to_Met:") in ("data/0_0", "data/1_0", "dy/0_0")
    os.kill(json.loads((folder / "build/smk/lock").read_text())["snakemake"], signal.SIGKILL)
    said = run.ended(status=1, seconds=30)
    assert "Snakemake was ended by signal 9" in said
    assert "2 jobs may still be in the queue: the same command takes them over" in said
    status = slurm.run(FASTHEP_SMK, "status", cwd=folder).stdout
    assert f"slurm job {left[1]}: {name}: waiting (JobHeldUser)" in status
    again = Run(slurm, folder / "workflow.yaml")
    again.says("2 jobs of an earlier run go on: 1 running, 1 waiting")
    released(slurm, folder, again)
    assert sum(tries(folder).values()) == 3
    assert never_twice(folder)
    is_right(folder, moody_reference)


def test_a_job_is_submitted_again_when_asked_for(slurm: Cluster) -> None:
    """One that hangs: it is cancelled, and the run goes on with its next attempt."""
    folder = in_trouble(slurm, sleep=200)
    run = Run(slurm, folder / "workflow.yaml")
    run.until(lambda: sum(tries(folder).values()) == 3)
    name = "stages_Moody_to_Met:dy/0_0"
    for job in ("dy", "stages_Moody_to_Met:d/0_0"):
        wrong = slurm.run(FASTHEP_SMK, "retry", job, cwd=folder)
        assert wrong.returncode == 2
        assert "is not a job in the queue" in wrong.stderr
    assert f"did you mean '{name}'?" in wrong.stderr
    done = slurm.run(FASTHEP_SMK, "retry", name, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert f"({name}) cancelled: the run submits it again" in done.stdout
    set_mood(folder, awake=True)
    run.ended()
    assert tries(folder) == {"data": 2, "dy": 2}


def test_cancel_ends_what_a_killed_run_has_left(slurm: Cluster) -> None:
    folder, run, _ = one_runs_one_waits(slurm)
    kill(run, folder)
    done = slurm.run(FASTHEP_SMK, "cancel", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "2 jobs cancelled\n"), done.stderr
    assert jobs_of(slurm, folder) == []


def test_what_a_killed_run_has_submitted_last_is_found_by_its_name(
    slurm: Cluster, moody_reference: Path
) -> None:
    """It was killed between the submission and the answer."""
    folder, run, left = one_runs_one_waits(slurm)
    kill(run, folder)
    path = folder / "build/smk/batch_jobs.jsonl"
    answer = f'"batch_id": "{left[1]}"'
    lines = [line for line in path.read_text().splitlines() if answer not in line]
    path.write_text("".join(f"{line}\n" for line in lines))
    again = Run(slurm, folder / "workflow.yaml")
    again.says("2 jobs of an earlier run go on: 1 running, 1 waiting")
    released(slurm, folder, again)
    assert set(left) <= batch_jobs(folder)
    assert sum(tries(folder).values()) == 3
    assert never_twice(folder)
    is_right(folder, moody_reference)
    assert not path.exists()


def test_jobs_that_ended_between_two_calls_count(slurm: Cluster, moody_reference: Path) -> None:
    folder = in_trouble(slurm, sleep=3)
    run = Run(slurm, folder / "workflow.yaml")
    run.until(lambda: sum(tries(folder).values()) == 3)
    kill(run, folder)
    gone(slurm, folder)
    said = Run(slurm, folder / "workflow.yaml").ended()
    assert "of an earlier run" not in said
    assert sum(tries(folder).values()) == 3
    is_right(folder, moody_reference)


@LONG  # shorter: the same on HTCondor, and here for jobs that would run elsewhere now
def test_jobs_for_another_workflow_are_cancelled_first(slurm: Cluster) -> None:
    """A stage was edited after the kill: what was submitted before is no result of it."""
    folder = in_trouble(slurm, sleep=20)
    run = Run(slurm, folder / "workflow.yaml")
    run.until(lambda: sum(tries(folder).values()) == 3)
    kill(run, folder)
    set_mood(folder)
    workflow = folder / "workflow.yaml"
    workflow.write_text(workflow.read_text().replace("nbins: 20", "nbins: 10"))
    said = Run(slurm, workflow).ended()
    assert "3 jobs of an earlier run cancelled: this run does not need them" in said
    assert sum(tries(folder).values()) == 6
    assert never_twice(folder)
    is_right(folder, local_run(folder, workflow))


def test_jobs_that_were_to_run_elsewhere_are_cancelled(
    slurm: Cluster, moody_reference: Path
) -> None:
    """The pool has other options now: jobs that wait for the old ones would wait for ever."""
    folder, run, _ = one_runs_one_waits(slurm)
    kill(run, folder)
    set_mood(folder)
    at(folder)
    said = Run(slurm, folder / "workflow.yaml").ended()
    assert "2 jobs of an earlier run cancelled: this run does not need them" in said
    assert never_twice(folder)
    is_right(folder, moody_reference)


def test_cancel_leaves_no_job_of_an_earlier_run(slurm: Cluster, moody_reference: Path) -> None:
    folder, run, left = one_runs_one_waits(slurm)
    kill(run, folder)
    set_mood(folder)
    again = Run(slurm, folder / "workflow.yaml", "--cancel")
    again.says("2 jobs of an earlier run cancelled")
    released(slurm, folder, again)
    assert not set(left) & batch_jobs(folder)
    assert never_twice(folder)
    is_right(folder, moody_reference)
