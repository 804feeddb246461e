"""Plain Snakemake on the test HTCondor pool: three rules, three slots."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.clusters.conftest import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.cluster, pytest.mark.xdist_group("htcondor")]

#: Shorter: our own jobs in three pools, in test_htcondor.py.
LONG = pytest.mark.long
SNAKEMAKE = Path(sys.executable).parent / "snakemake"

# Jobs know their own number from the record that HTCondor gives them along.
SNAKEFILE = """\
rule all:
    input: "standard", "highmem", "gpu"

rule standard:
    output: "standard"
    resources: htcondor_request_mem_mb=500
    shell: "awk '/^ClusterId/ {{print $3}}' $_CONDOR_JOB_AD > {output}"

rule highmem:
    output: "highmem"
    threads: 3
    resources: htcondor_request_mem_mb=100000
    shell: "awk '/^ClusterId/ {{print $3}}' $_CONDOR_JOB_AD > {output}"

rule gpu:
    output: "gpu"
    resources: htcondor_request_mem_mb=500, request_gpus=1
    shell: "awk '/^ClusterId/ {{print $3}}' $_CONDOR_JOB_AD > {output}"
"""

# Jobs start with an empty environment, but Snakemake in them needs PATH.
OPTIONS = (
    "--executor=htcondor",
    "--jobs=3",
    "--seconds-between-status-checks=1",
    "--htcondor-held-timeout=0",
    "--default-resources",
    "getenv='PATH'",
)


def record(htcondor: Cluster, number: str) -> dict[str, str]:
    """What HTCondor has recorded of a finished job; it writes that down a moment later."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        shown = htcondor.run("condor_history", "-long", number, timeout=10)
        if shown.stdout.strip():
            return dict(line.split(" = ", 1) for line in shown.stdout.splitlines() if " = " in line)
        time.sleep(0.5)
    raise AssertionError(f"no record of job {number}: {shown.stderr}")


@pytest.fixture(scope="module")
def jobs(htcondor: Cluster) -> dict[str, dict[str, str]]:
    """HTCondor's record of the job of each rule, after one run of the Snakefile."""
    folder = htcondor.new_folder()
    (folder / "Snakefile").write_text(SNAKEFILE)
    done = htcondor.run(SNAKEMAKE, *OPTIONS, cwd=folder)
    assert done.returncode == 0, done.stderr
    return {
        rule: record(htcondor, (folder / rule).read_text().strip())
        for rule in ("standard", "highmem", "gpu")
    }


@LONG
@pytest.mark.parametrize(
    ("rule", "slot", "processors", "memory"),
    [
        ("standard", "slot1", "1", "500"),
        ("highmem", "slot2", "3", "100000"),
        ("gpu", "slot3", "1", "500"),
    ],
)
def test_a_rule_runs_in_a_slot_that_has_what_it_asked_for(
    jobs: dict[str, dict[str, str]], rule: str, slot: str, processors: str, memory: str
) -> None:
    """What a rule asks for decides where its job runs; the smallest slot that fits is taken."""
    job = jobs[rule]
    assert job["ExitCode"] == "0"
    assert job["LastRemoteHost"].startswith(f'"{slot}_')
    assert job["RequestCpus"] == processors
    assert job["RequestMemory"] == memory


@LONG
def test_only_the_rule_that_asks_gets_a_gpu(jobs: dict[str, dict[str, str]]) -> None:
    """``request_gpus=1`` becomes a GPU of the job; others have none."""
    gpus = {rule: job.get("RequestGPUs", "none") for rule, job in jobs.items()}
    assert gpus == {"standard": "none", "highmem": "none", "gpu": "1"}


SUBMISSION = """\
executable = script.sh
output = out
error = err
log = log
request_memory = 100
{more}
queue
"""


def submit(htcondor: Cluster, script: str, more: str = "") -> tuple[Path, str]:
    """Submit a shell script; the folder with its output, and the job's number."""
    folder = htcondor.new_folder()
    (folder / "script.sh").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "script.sh").chmod(0o755)
    (folder / "job").write_text(SUBMISSION.format(more=more))
    done = htcondor.run("condor_submit", "-terse", "job", cwd=folder, timeout=20)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout.split(".", 1)[0]


def test_a_bare_node_shares_no_files_with_this_machine(htcondor: Cluster) -> None:
    """A job with ``+BareNode = True`` sees neither the shared folder nor this Python."""
    script = f"ls -d {htcondor.shared} '{sys.executable}'; cat /etc/debian_version"
    bare = "should_transfer_files = YES\n+BareNode = True"
    folder, number = submit(htcondor, script, bare)
    assert record(htcondor, number)["ExitCode"] == "0"
    assert (folder / "out").read_text().startswith("13")
    assert (folder / "err").read_text().count("No such file or directory") == 2


def test_a_job_that_takes_more_memory_than_it_asked_for_is_held(htcondor: Cluster) -> None:
    """HTCondor watches memory: 400 MB in a job that asked for 100."""
    take = f"'{sys.executable}' -c 'import time; x = b\"x\" * 400_000_000; time.sleep(60)'"
    _, number = submit(htcondor, take)
    end = time.monotonic() + 40
    reason = ""
    while "memory" not in reason and time.monotonic() < end:
        time.sleep(1)
        reason = htcondor.run("condor_q", number, "-af", "HoldReason", timeout=10).stdout
    assert "memory usage exceeded request_memory" in reason
    htcondor.run("condor_rm", number, timeout=10)
