"""Plain Snakemake on the test Slurm: three rules, three partitions."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.clusters.conftest import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.cluster, pytest.mark.xdist_group("slurm")]

#: Shorter: our own jobs in three pools, in test_slurm.py.
LONG = pytest.mark.long
SNAKEMAKE = Path(sys.executable).parent / "snakemake"

SNAKEFILE = """\
rule all:
    input: "standard", "highmem", "gpu"

rule standard:
    output: "standard"
    resources: mem_mb=500, runtime=5
    shell: "echo $SLURM_JOB_ID > {output}"

rule highmem:
    output: "highmem"
    threads: 3
    resources: slurm_partition="highmem", mem_mb=100000, runtime=5
    shell: "echo $SLURM_JOB_ID > {output}"

rule gpu:
    output: "gpu"
    resources: slurm_partition="gpu", mem_mb=500, gpu=1, runtime=5
    shell: "echo $SLURM_JOB_ID > {output}"
"""

# There is no accounting to ask, and jobs are done within seconds.
OPTIONS = (
    "--executor=slurm",
    "--jobs=3",
    "--slurm-no-account",
    "--slurm-status-command=squeue",
    "--slurm-init-seconds-before-status-checks=1",
    "--seconds-between-status-checks=1",
)


def record(slurm: Cluster, number: str) -> dict[str, str]:
    """What Slurm has recorded of a job."""
    shown = slurm.run("scontrol", "--oneliner", "show", "job", number, timeout=10)
    assert shown.returncode == 0, shown.stderr
    return dict(pair.split("=", 1) for pair in shown.stdout.split() if "=" in pair)


@pytest.fixture(scope="module")
def jobs(slurm: Cluster) -> dict[str, dict[str, str]]:
    """Slurm's record of the job of each rule, after one run of the Snakefile."""
    folder = slurm.new_folder()
    (folder / "Snakefile").write_text(SNAKEFILE)
    done = slurm.run(SNAKEMAKE, *OPTIONS, cwd=folder)
    assert done.returncode == 0, done.stderr
    return {
        rule: record(slurm, (folder / rule).read_text().strip())
        for rule in ("standard", "highmem", "gpu")
    }


@LONG
@pytest.mark.parametrize(
    ("rule", "nodes", "asked"),
    [
        ("standard", ["std1", "std2"], "cpu=1,mem=500M"),
        ("highmem", ["big1"], "cpu=3,mem=100000M"),
        ("gpu", ["gpu1"], "cpu=1,mem=500M"),
    ],
)
def test_a_rule_runs_in_its_partition_with_what_it_asked_for(
    jobs: dict[str, dict[str, str]], rule: str, nodes: list[str], asked: str
) -> None:
    """A rule's ``slurm_partition`` decides where its job runs; the default is ``standard``."""
    job = jobs[rule]
    assert job["JobState"] == "COMPLETED"
    assert job["Partition"] == rule
    assert job["NodeList"] in nodes
    assert job["TRES"].startswith(asked)
    assert job["TimeLimit"] == "00:05:00"


@LONG
def test_only_the_rule_that_asks_gets_a_gpu(jobs: dict[str, dict[str, str]]) -> None:
    """``gpu=1`` becomes a GPU of the job; others have none."""
    gpus = {rule: job.get("TresPerJob", "none") for rule, job in jobs.items()}
    assert gpus == {"standard": "none", "highmem": "none", "gpu": "gres:gpu:1"}


def test_a_job_that_takes_more_memory_than_it_asked_for_is_ended(slurm: Cluster) -> None:
    """Slurm watches memory: 400 MB in a job that asked for 100."""
    take = f"'{sys.executable}' -c 'import time; x = b\"x\" * 400_000_000; time.sleep(60)'"
    options = ("--wait", "--parsable", "--mem=100", "--output=too-large.log", "--wrap")
    done = slurm.run("sbatch", *options, take, timeout=60)
    job = record(slurm, done.stdout.strip())
    assert job["JobState"] == "FAILED"
    assert "exceeded memory limit" in (slurm.shared / "too-large.log").read_text()
