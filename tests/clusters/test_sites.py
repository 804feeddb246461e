"""A site described, examined and used, on real batch systems."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
import yaml

from tests.clusters.analyses import (
    FASTHEP_SMK,
    ROOT,
    moody,
    records,
    set_mood,
    site,
    start,
    three_pools,
)
from tests.clusters.conftest import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.cluster]
LONG = pytest.mark.long
SNAKEMAKE = FASTHEP_SMK.parent / "snakemake"


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The batch system of a test."""
    found: Cluster = request.getfixturevalue(request.getfixturevalue("system"))
    return found


@pytest.fixture
def system(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def on_both(first: str) -> pytest.MarkDecorator:
    """Run a test on both batch systems; in the short form on this one."""
    cases = [first, pytest.param({"slurm": "htcondor", "htcondor": "slurm"}[first], marks=LONG)]
    return pytest.mark.parametrize("system", cases, indirect=True)


@pytest.fixture
def folder(cluster: Cluster) -> Path:
    """A folder with the three-pool workflow."""
    return three_pools(cluster.new_folder()).parent


def hurry(site: Path, system: str) -> None:
    """Let Snakemake look every second, as nobody would on a shared cluster."""
    settings = yaml.safe_load((site / "config.yaml").read_text())
    settings["seconds-between-status-checks"] = 1
    if system == "slurm":
        settings["slurm-init-seconds-before-status-checks"] = 1
    (site / "config.yaml").write_text(yaml.safe_dump(settings))


@on_both("slurm")
def test_a_first_profile_is_written_examined_and_used(
    cluster: Cluster, system: str, folder: Path
) -> None:
    done = cluster.run(FASTHEP_SMK, "site", "init", system, "mine", cwd=folder)
    assert done.returncode == 0, done.stderr
    pools = yaml.safe_load((folder / "mine" / "pools.yaml").read_text())
    assert {"default", "high_memory", "gpu"} <= set(pools["pool_profiles"])
    if system == "slurm":
        partitions = {
            name: content["config"]["slurm"]["partition"]
            for name, content in pools["pool_profiles"].items()
        }
        assert partitions == {"default": "standard", "high_memory": "highmem", "gpu": "gpu"}
        settings = yaml.safe_load((folder / "mine" / "config.yaml").read_text())
        assert settings["slurm-status-command"] == "squeue"  # it has no accounting
    hurry(folder / "mine", system)

    done = cluster.run(FASTHEP_SMK, "doctor", "--profile", "mine", "--json", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    states = {check["what"]: check["state"] for check in json.loads(done.stdout)}
    assert {states[f"pool {name!r}"] for name in ("default", "high_memory", "gpu")} == {"ok"}
    assert not list(folder.glob(".fasthep-smk*"))

    done = cluster.run(FASTHEP_SMK, "inline.yaml", "--profile", "mine", cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr
    assert {record["asked"]["pool"] for record in records(folder / "build")} == {
        "default",
        "high_memory",
        "gpu",
    }


@on_both("htcondor")
def test_a_profile_of_ours_alone_runs_what_was_translated_elsewhere(
    cluster: Cluster, system: str, folder: Path
) -> None:
    other = {"slurm": "htcondor", "htcondor": "slurm"}[system]
    done = cluster.run(FASTHEP_SMK, "translate", "inline.yaml", "--profile", other, cwd=folder)
    assert done.returncode == 0, done.stderr
    own = folder / "site"
    if system == "slurm":  # whose partitions nobody but itself knows
        done = cluster.run(FASTHEP_SMK, "site", "init", system, "site", cwd=folder)
        assert done.returncode == 0, done.stderr
    else:
        shutil.copytree(ROOT / "profiles" / system, own)
    hurry(own, system)
    options = ("--snakefile", "build/smk/Snakefile", "--directory", "build")
    done = cluster.run(SNAKEMAKE, "--profile", own, *options, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (folder / "build" / "artifacts" / "histograms" / "MuonPt.pkl").exists()


@on_both("htcondor")
def test_the_doctor_says_which_pool_cannot_be_reached(
    cluster: Cluster, system: str, folder: Path
) -> None:
    late = folder / "site"
    late.mkdir()
    (late / "config.yaml").write_text(f"executor: {system}\n")
    options = {
        "slurm": {"partition": "standard", "extra": "--begin=now+1hour"},
        "htcondor": {"requirements": 'Machine == "nowhere"'},
    }[system]
    pools = {"pool_profiles": {"late": {"config": {system: options}}}}
    (late / "pools.yaml").write_text(yaml.safe_dump(pools))
    hurry(late, system)
    done = cluster.run(
        FASTHEP_SMK, "doctor", "--profile", "site", "--timeout", "12", cwd=folder, timeout=100
    )
    assert done.returncode == 1
    assert "pool 'late'" in done.stdout
    assert "no answer in 12 s" in " ".join(done.stdout.split())


@on_both("slurm")
def test_after_a_kill_the_next_call_takes_over(cluster: Cluster, system: str) -> None:
    folder = cluster.new_folder()
    workflow = moody(folder, execution={}, pools={"default": {"resources": {"memory": "1GB"}}})
    quick = {"executor": system, "seconds-between-status-checks": 1}
    if system == "slurm":
        quick["slurm-init-seconds-before-status-checks"] = 1
    site(folder, {}, **quick)
    set_mood(folder, sleep=120)
    run = start(cluster, workflow, "--profile", "site")
    tries = folder / "tries.txt"
    end = time.monotonic() + 60
    while not tries.exists() or len(tries.read_text().splitlines()) < 3:
        assert time.monotonic() < end, "the jobs did not start"
        time.sleep(0.2)
    held = json.loads((folder / "build" / "smk" / "lock").read_text())
    os.kill(run.pid, signal.SIGKILL)  # the command of the cluster's that became fasthep-smk
    run.wait(10)
    set_mood(folder)

    done = cluster.run(FASTHEP_SMK, "workflow.yaml", "--profile", "site", cwd=folder, timeout=200)
    assert done.returncode == 0, done.stderr
    assert held["state"] == "running"
    assert len(tries.read_text().splitlines()) == 6  # three that were killed, three that counted
    assert all(record["attempt"] == 1 for record in records(folder / "build"))
