"""Runs without a terminal on real systems, ``retry`` and ``cancel``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.clusters.analyses import FASTHEP_SMK, moody, set_mood, site, start
from tests.clusters.conftest import Cluster
from tests.clusters.test_sites import cluster, on_both, system
from tests.integration.test_prestart import snakemake_of
from tests.support.processes import until, working_in

__all__ = ["cluster", "system"]
pytestmark = [pytest.mark.integration, pytest.mark.cluster]
NAME = "stages_Moody_to_Met:data/0_0"


@pytest.fixture
def folder(cluster: Cluster, system: str) -> Path:
    """The moody analysis of one file, whose job sleeps for a minute and has one attempt."""
    folder = cluster.new_folder()
    pools = {"default": {"resources": {"memory": "1GB"}, "config": {"retries": 0}}}
    moody(folder, execution={}, pools=pools, datasets={"data": 1})
    set_mood(folder, sleep=60, above=True)
    site(folder, {}, executor=system, **{"seconds-between-status-checks": 1})
    return folder


def tried(folder: Path) -> int:
    path = folder / "tries.txt"
    return len(path.read_text().splitlines()) if path.exists() else 0


def ask(cluster: Cluster, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return cluster.run(FASTHEP_SMK, *words, cwd=folder, timeout=100)


@on_both("slurm")
def test_a_run_goes_on_with_a_job_that_is_wanted_again(cluster: Cluster, folder: Path) -> None:
    """The job had one attempt, and has it still. No Snakemake ran on its node."""
    run = start(cluster, folder / "workflow.yaml", "--profile", "site")
    until(lambda: tried(folder) == 1)
    set_mood(folder)
    again = ask(cluster, folder, "retry", NAME)
    assert again.returncode == 0, again.stderr
    assert f"({NAME}) cancelled: the run submits it again" in again.stdout
    said, _ = run.communicate(timeout=100)
    assert run.returncode == 0, said
    assert "jobs done; results in" in said
    assert tried(folder) == 2
    above = (folder / "above.txt").read_text()
    assert "fasthep_smk.worker" in above or "smk/worker" in above
    assert "snakemake" not in above


@on_both("slurm")
def test_a_run_whose_terminal_was_closed_goes_on_until_it_is_cancelled(
    cluster: Cluster, folder: Path
) -> None:
    """SIGHUP is what it gets then; its job is taken out of the queue with it."""
    run = start(cluster, folder / "workflow.yaml", "--profile", "site")
    until(lambda: tried(folder) == 1)
    lock = json.loads((folder / "build/smk/lock").read_text())
    os.kill(lock["pid"], signal.SIGHUP)
    time.sleep(2)
    assert run.poll() is None
    done = ask(cluster, folder, "cancel")
    assert done.returncode == 0, done.stderr
    assert "the run was stopped (process " in done.stdout
    assert "and 1 job of the batch system with it" in done.stdout
    assert run.wait(20) == 130
    assert "nothing to cancel" in ask(cluster, folder, "cancel").stdout


@on_both("slurm")
@pytest.mark.parametrize("ends", ["runs", "killed", "refused"])
def test_snakemake_starts_while_the_workflow_is_compiled(
    cluster: Cluster, folder: Path, ends: str
) -> None:
    """It is the one of the run, or ends without one."""
    module, gate = folder / "own_ops.py", folder / "gate"
    module.write_text(
        f"{module.read_text()}\nwhile Path({str(gate)!r}).exists():\n    time.sleep(0.05)\n"
    )
    gate.touch()
    set_mood(folder)
    if ends == "refused":
        workflow = folder / "workflow.yaml"
        workflow.write_text(workflow.read_text().replace("MET_px", "MET_pX"))
    run = start(cluster, folder / "workflow.yaml", "--profile", "site")
    until(lambda: working_in(folder, b"--told-by"))
    (early,) = working_in(folder, b"--told-by")
    if ends == "killed":
        for one in working_in(folder, b"workflow.yaml"):
            os.kill(one, signal.SIGKILL)
    gate.unlink()
    if ends == "runs":
        until(lambda: snakemake_of(folder) == early)
    said, _ = run.communicate(timeout=120)
    assert (run.returncode == 0) == (ends == "runs"), said
    until(lambda: not working_in(folder))
