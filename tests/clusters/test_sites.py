"""A site described, examined and used, on real batch systems."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clusters.analyses import (
    FASTHEP_SMK,
    ROOT,
    given_away,
    moody,
    records,
    site,
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
    return three_pools(cluster.new_folder(), each=1).parent


def hurry(site: Path, system: str) -> None:
    """Let Snakemake look every second, as nobody would on a shared cluster."""
    settings = yaml.safe_load((site / "config.yaml").read_text())
    settings["seconds-between-status-checks"] = 1
    if system == "slurm":
        settings["slurm-init-seconds-before-status-checks"] = 1
    (site / "config.yaml").write_text(yaml.safe_dump(settings))


#: The kinds of nodes.
KINDS = {
    "slurm": [
        "1 node: 4 cpus, 16000 MiB, partition short,standard",
        "1 node: 8 cpus, 125 GiB, partition highmem",
        "1 node: 4 cpus, 16000 MiB, 1 GPU, partition gpu",
        "short: 00:02:00",
    ],
    "htcondor": [
        r"1 slot: 8 cpus, 16000 MiB, \d+ [MGT]B disk",
        r"1 slot: 8 cpus, 125 GiB, \d+ [MGT]B disk",
        r"1 slot: 4 cpus, 16000 MiB, \d+ [MGT]B disk, 1 GPU",
    ],
}
#: What a job gets at most in one of the partitions.
SHORT = {"walltime": "00:02:00", "cpus": 4, "memory": "16000MiB", "gpus": 0}
#: Where the pools of the first profile are.
WHERE = {
    "slurm": {
        "default": "partition standard",
        "high_memory": "partition highmem",
        "gpu": "partition gpu",
    },
    "htcondor": {
        "default": r"slot slot1_\d+@\S+",
        "high_memory": r"slot slot2_\d+@\S+",
        "gpu": r"slot slot3_\d+@\S+",
    },
}


@on_both("slurm")
def test_a_first_analysis_is_run_with_a_first_profile(cluster: Cluster, system: str) -> None:
    """As docs/clusters.md says, and nothing else."""
    folder = cluster.new_folder() / "first"
    done = cluster.run(FASTHEP_SMK, "init", "first", cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    done = cluster.run(FASTHEP_SMK, "site", "init", system, "mine", cwd=folder)
    assert done.returncode == 0, done.stderr
    pools = yaml.safe_load((folder / "mine" / "pools.yaml").read_text())
    assert {"default", "high_memory", "gpu"} <= set(pools["pool_profiles"])
    text = (folder / "mine" / "pools.yaml").read_text()
    for line in KINDS[system]:
        assert re.search(f"^#     {line}$", text, re.MULTILINE)
    if system == "slurm":
        partitions = {
            name: content["config"]["slurm"]["partition"]
            for name, content in pools["pool_profiles"].items()
            if "config" in content
        }
        assert partitions == {"high_memory": "highmem", "gpu": "gpu"}
        found = pools["default"]["config"]["slurm"]["partitions"]
        assert [*found] == ["standard", "short", "highmem", "gpu"]  # not "spot"
        assert found["short"] == SHORT
        assert found["standard"]["walltime"] == "unlimited"
        settings = yaml.safe_load((folder / "mine" / "config.yaml").read_text())
        assert settings["slurm-status-command"] == "squeue"  # it has no accounting
    hurry(folder / "mine", system)

    done = cluster.run(FASTHEP_SMK, "doctor", "--profile", "mine", "--json", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    checks = {one["what"]: one for one in json.loads(done.stdout)}
    for line in KINDS[system]:
        assert re.search(line, checks[f"{system} answers"]["found"])
    for name, place in WHERE[system].items():
        check = checks[f"pool {name!r}"]
        assert check["state"] == "ok"
        assert re.search(rf"{place}: Python 3\.\d+\.\d+, \d+ cpus?", check["found"])
        assert check["found"].endswith(", 1 GPU") == (name == "gpu")
    assert not list(folder.glob(".fasthep-smk*"))

    done = cluster.run(FASTHEP_SMK, "workflow.yaml", "--profile", "mine", cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (folder / "build/artifacts/plots/mass.png").exists()
    pools = {record["asked"]["pool"] for record in records(folder / "build")}
    assert pools == {"default", "large"}


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


#: What a job gets on the test clusters that does not say what it needs.
UNSAID = {
    "slurm": [
        "no memory requested (-): 1000 MB for each cpu (DefMemPerCPU), unless its partition says "
        "otherwise"
    ],
    "htcondor": [
        f"no {name} requested (-): only as much as it has used so far: next to nothing at its "
        f"first start (JOB_DEFAULT_REQUEST{name.upper()}); HTCondor may end a job that takes more"
        for name in ("memory", "disk")
    ],
}


@on_both("htcondor")
def test_explain_says_what_a_job_gets_of_what_no_pool_says(cluster: Cluster, system: str) -> None:
    folder = cluster.new_folder()
    gpu = {"resources": {"gpus": 1}, "config": {"slurm": {"partition": "gpu"}}}
    moody(folder, execution={"require": "gpu"}, pools={"gpu": gpu})
    site(folder, {"default": {"config": {"sizes": "fixed"}}}, executor=system)
    done = cluster.run(FASTHEP_SMK, "explain", "workflow.yaml", "--profile", "site", cwd=folder)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if "requested (-)" in line] == UNSAID[system]
    first = next(line.split() for line in lines if "  gpu  " in line)
    assert first[2:8] == ["gpu", "1", "-", "-", "1", "-"]  # cpus, memory, disk, gpus, walltime


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


def examined(
    cluster: Cluster, system: str, **pools: Any
) -> tuple[dict[str, tuple[str, str]], float]:
    """What the doctor finds to be wrong, with what to do, and how many seconds that took."""
    folder = cluster.new_folder()
    site(folder, {"pool_profiles": pools}, executor=system)
    hurry(folder / "site", system)
    given_away(folder)
    began = time.monotonic()
    words = ("doctor", "--profile", "site", "--json")
    done = cluster.run(FASTHEP_SMK, *words, cwd=folder, timeout=150)
    seconds = time.monotonic() - began
    assert done.returncode == 1, done.stdout + done.stderr
    assert not list(folder.glob(".fasthep-smk*"))
    checks = json.loads(done.stdout)
    wrong = [check for check in checks if check["state"] == "FAILED"]
    return {check["what"]: (check["found"], check["fix"]) for check in wrong}, seconds


@pytest.mark.parametrize("system", ["slurm", "htcondor"], indirect=True)
def test_the_doctor_refuses_what_a_run_would_be_refused_for(cluster: Cluster, system: str) -> None:
    """No probe is sent."""
    large = {"resources": {"cpus": 1, "memory": "900GB"}}
    if system == "slurm":
        large["config"] = {"slurm": {"partition": "highmem"}}  # type: ignore[dict-item]
    found, _ = examined(cluster, system, large=large, small={"resources": {"cpus": 1}})
    [(text, fix)] = found.values()
    expected = {
        "slurm": "pool 'large' asks for more than partition highmem has; memory: 900 GB",
        "htcondor": "pool 'large' asks for more than any slot of HTCondor has; "
        "cpus 1, memory 900 GB, gpus 0",
    }
    assert text == expected[system]
    assert "such a job would wait forever" in fix


@pytest.fixture
def mixed(slurm: Cluster) -> Iterator[str]:
    """A partition of unequal nodes, which site init does not choose."""
    words = "PartitionName=mixed Nodes=std1,big1 Hidden=YES"
    scontrol(slurm, "create", *words.split())
    yield "mixed"
    scontrol(slurm, "delete", "PartitionName=mixed")


def scontrol(slurm: Cluster, *words: str) -> None:
    """What only the administrator of a cluster may do."""
    subprocess.run(["scontrol", *words], env={**os.environ, **slurm.env}, timeout=20, check=True)


def test_the_largest_node_of_a_partition_counts(slurm: Cluster, mixed: str) -> None:
    """A job that has room on one node of unequal ones runs; a larger one is refused."""
    folder = slurm.new_folder()
    moody(folder, execution={"require": "large"}, pools={"large": {}})

    def explained(cpus: int) -> subprocess.CompletedProcess[str]:
        asked = {"cpus": cpus, "memory": "100GB"}
        large = {"resources": asked, "config": {"slurm": {"partition": mixed}}}
        site(folder, {"pool_profiles": {"large": large}}, executor="slurm")
        words = ("explain", "workflow.yaml", "--profile", "site")
        return slurm.run(FASTHEP_SMK, *words, cwd=folder)

    done = explained(8)
    assert done.returncode == 0, done.stderr
    assert "slurm_partition=mixed" in done.stdout
    done = explained(9)
    assert done.returncode == 1
    assert "pool 'large' asks for more than partition mixed has" in done.stderr
    assert "expected: at most 8" in done.stderr


#: What each batch system refuses, what it says of it itself, and the fix.
REFUSED = {
    "slurm": (
        {"constraint": "no_such_feature"},
        "Batch job submission failed: Invalid feature specification",
        "config: {slurm: {constraint: FEATURE}} in the pool",
    ),
    "htcondor": (
        {"requirements": "Machine == "},
        "",
        "config: {htcondor: {requirements: EXPRESSION}} in the pool",
    ),
}
#: What keeps a job from starting, and what the batch system says of it.
HELD = {
    "slurm": ({"extra": ["--hold"]}, "partition standard: JobHeldUser"),
    "htcondor": (
        {"submit": {"hold": True}},
        "held: submitted on hold at user's request",
    ),
}


@pytest.mark.parametrize("system", ["slurm", "htcondor"], indirect=True)
def test_the_doctor_has_one_reason_for_each_pool(cluster: Cluster, system: str) -> None:
    """In the batch system's own words; it ends as soon as no probe can answer any more."""
    options, said, wanted = REFUSED[system]
    held, reason = HELD[system]
    pools = {"wrong": {"config": {system: options}}, "late": {"config": {system: held}}}
    found, seconds = examined(cluster, system, **pools)
    assert set(found) == {"pool 'wrong'", "pool 'late'"}
    text, fix = found["pool 'wrong'"]
    assert text.startswith(f"could not be submitted: {said}")
    assert fix.startswith(wanted)
    assert found["pool 'late'"][0] == f"its job will not start until somebody acts ({reason})"
    assert "base64" not in str(found)
    assert seconds < 60  # of 300


def test_the_doctor_names_the_python_that_is_not_there(slurm: Cluster) -> None:
    """It is gone when the first probe is submitted."""
    folder = slurm.new_folder()
    prefix, here = folder / "env", Path(sys.prefix)
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib").symlink_to(here / "lib")
    (prefix / "bin/python").symlink_to(Path(sys.executable).resolve())
    shutil.copy(here / "pyvenv.cfg", prefix)
    sbatch = prefix / "bin/sbatch"
    sbatch.write_text(f'#!/bin/sh\nrm {prefix}/bin/python\nexec /usr/bin/sbatch "$@"\n')
    sbatch.chmod(0o755)
    site(folder, {"pool_profiles": {"default": {}}}, executor="slurm")
    hurry(folder / "site", "slurm")
    given_away(folder)
    env = ("env", f"PATH={prefix}/bin:{os.environ['PATH']}")
    words = ("-m", "fasthep_smk", "doctor", "--profile", "site", "--json")
    done = slurm.run(*env, prefix / "bin/python", *words, cwd=folder, timeout=100)
    checks = {check["what"]: check for check in json.loads(done.stdout)}
    found = checks["pool 'default'"]["found"]
    assert re.fullmatch(rf"Python {prefix}/bin/python does not exist on worker \S+", found)
