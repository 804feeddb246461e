"""A pool that does not come, on real batch systems: jobs go to their fallback, once."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import analyses
from tests.clusters.analyses import set_mood
from tests.clusters.conftest import Cluster
from tests.clusters.test_htcondor import history
from tests.clusters.test_slurm import (
    Run,
    jobs_of,
    local_run,
    moody_reference,
    most_at_a_time,
    slurms_record,
)
from tests.clusters.test_transfer import SITE as TRANSFER
from tests.clusters.test_transfer import WORKS
from tests.support.compare import compare_builds
from tests.support.forms import LONG, some

__all__ = ["moody_reference"]

pytestmark = [pytest.mark.integration, pytest.mark.cluster]

HURRY = {
    "slurm": {
        "executor": "slurm",
        "seconds-between-status-checks": 1,
        "slurm-init-seconds-before-status-checks": 1,
    },
    "htcondor": {
        "executor": "htcondor",
        "seconds-between-status-checks": 1,
        "htcondor-held-timeout": 3,
    },
}
#: How the pools of the analysis are called in each system.
PLACES = {
    "slurm": {"gpu": {"partition": "gpu"}, "default": {"partition": "standard"}},
    "htcondor": {"gpu": {"requirements": 'Machine == "nowhere"'}, "default": {}},
}


def prepared(
    cluster: Cluster,
    system: str,
    *,
    after: str | int = "6s",
    gpu: dict[str, Any] | None = None,
    retries: int = 0,
    workers: int | None = None,
    places: dict[str, Any] | None = None,
    execution: dict[str, Any] | None = None,
    **mood: Any,
) -> Path:
    """A moody analysis of three jobs that prefer a pool ``gpu``; then four that do not."""
    folder = cluster.new_folder()
    pools = {
        "gpu": {"config": {"retries": retries}, **(gpu or {})},
        "default": {"workers": workers, "resources": {"memory": "2GB"}},
    }
    needs = {"prefer": "gpu", "fallback": "default", "fallback_after": after, **(execution or {})}
    analyses.moody(folder, execution=needs, pools=pools)
    set_mood(folder, **mood)
    places = places or PLACES[system]
    profiles = {name: {"config": {system: said}} for name, said in places.items()}
    site = {"default": {"config": {"walltime": "00:10:00"}}, "pool_profiles": profiles}
    analyses.site(folder, site, **HURRY[system])
    return folder


def tries(folder: Path) -> Counter[str]:
    """How often each file was begun, by pool and dataset."""
    path = folder / "tries.txt"
    return Counter(path.read_text().splitlines()) if path.exists() else Counter()


def moody(folder: Path) -> list[dict[str, Any]]:
    """The records of the jobs that prefer the pool."""
    return [one for one in analyses.records(folder / "build") if "Moody" in one["rule"]]


def went(said: str) -> int:
    """How many jobs a run says have gone to their fallback, one by one or together."""
    jobs = r"(?:job stage_Moody \S+|(\d+) jobs of stage_Moody)"
    line = rf"^{jobs} waited 00:00:06 for pool gpu: now in pool default$"
    return sum(int(count or 1) for count in re.findall(line, said, re.MULTILINE))


@contextmanager
def drained(slurm: Cluster, partition: str) -> Iterator[None]:
    """Start no job in a partition; it takes them."""
    try:
        set_state(slurm, partition, "down")
        yield
    finally:
        set_state(slurm, partition, "up")


def set_state(slurm: Cluster, partition: str, state: str) -> None:
    command = ["scontrol", "update", f"partitionname={partition}", f"state={state}"]
    subprocess.run(command, env={**os.environ, **slurm.env}, check=True, timeout=30)


# On HTCondor, jobs leave in the same way whose pilots never come, or that start at that moment.
@pytest.mark.waits
@pytest.mark.parametrize("system", ["slurm", pytest.param("htcondor", marks=LONG)])
def test_a_pool_that_takes_nothing_is_left_for_the_fallback(
    system: str, request: pytest.FixtureRequest, moody_reference: Path
) -> None:
    """A partition that is down, requirements that no slot meets: the first attempt counts on.

    Jobs that come from elsewhere count for the workers of the fallback: one at a time.
    """
    cluster: Cluster = request.getfixturevalue(system)
    folder = prepared(cluster, system, workers=1, sleep=2)
    with drained(cluster, "gpu") if system == "slurm" else nullcontext():
        said = Run(cluster, folder / "workflow.yaml").ended()
    assert went(said) == 3
    assert "failed" not in said
    assert tries(folder) == {"default data": 2, "default dy": 1}
    assert most_at_a_time([(one["started"], one["ended"]) for one in moody(folder)]) == 1
    for record in moody(folder):
        assert (record["attempt"], record["earlier"]) == (1, [])
        assert (record["asked"]["pool"], record["waited_for"]) == ("default", "gpu")
        if system == "slurm":
            assert slurms_record(cluster, record["batch_job"])["Partition"] == "standard"
        else:
            [ad] = history(cluster, [record["batch_job"]]).values()
            assert "nowhere" not in str(ad["Requirements"])
    status = cluster.run(analyses.FASTHEP_SMK, "status", "build", cwd=folder).stdout
    assert "3 of stage_Moody ran in pool default, after waiting too long for pool gpu" in status
    assert not compare_builds(moody_reference, folder / "build")


@pytest.mark.parametrize("system", ["slurm", pytest.param("htcondor", marks=LONG)])
def test_a_pool_with_one_slot_keeps_the_job_that_runs_there(
    system: str, request: pytest.FixtureRequest, moody_reference: Path
) -> None:
    """One GPU for three jobs: the first runs on it, for longer than the others wait for it."""
    cluster: Cluster = request.getfixturevalue(system)
    places = {"gpu": {"partition": "gpu"} if system == "slurm" else {}, "default": {}}
    gpu = {"resources": {"gpus": 1}}
    folder = prepared(cluster, system, gpu=gpu, places=places, sleep=120)
    run = Run(cluster, folder / "workflow.yaml")
    run.until(lambda: sum(tries(folder).values()) >= 1)
    set_mood(folder)
    run.until(lambda: went(run.text) == 2)
    set_mood(folder, awake=True)
    run.ended()
    assert sum(tries(folder).values()) == 3
    found = sorted((one["asked"]["pool"], one["waited_for"]) for one in moody(folder))
    assert found == [("default", "gpu"), ("default", "gpu"), ("gpu", None)]
    assert not compare_builds(moody_reference, folder / "build")


@LONG  # shorter: no job goes that starts at that moment, and one slot keeps the job that runs there
@pytest.mark.parametrize("number", range(8))
def test_a_pool_that_comes_at_that_moment(
    slurm: Cluster, moody_reference: Path, number: int
) -> None:
    """The partition opens when the jobs are about to leave it: each runs once, here or there."""
    folder = prepared(slurm, "slurm")
    with drained(slurm, "gpu"):
        run = Run(slurm, folder / "workflow.yaml")
        run.until(lambda: len(jobs_of(slurm, folder)) == 3)
        time.sleep(random.Random(number).uniform(4.5, 7.5))
    said = run.ended()
    assert sum(tries(folder).values()) == 3
    pools = Counter(one["asked"]["pool"] for one in moody(folder))
    assert pools["default"] == went(said)
    assert {one["attempt"] for one in moody(folder)} == {1}
    assert not compare_builds(moody_reference, folder / "build")


def test_a_retry_goes_on_in_the_fallback(slurm: Cluster, moody_reference: Path) -> None:
    """What has failed there is tried again there, as often as it would have been."""
    folder = prepared(slurm, "slurm", retries=2, fail="data/dy_0.root")
    with drained(slurm, "gpu"):
        run = Run(slurm, folder / "workflow.yaml")
        run.until(lambda: tries(folder)["default dy"] == 2)
        set_mood(folder)
        run.ended()
    assert tries(folder) == {"default data": 2, "default dy": 3}
    [record] = [one for one in moody(folder) if one["key"].startswith("dy")]
    assert (record["attempt"], record["waited_for"]) == (3, "gpu")
    earlier = [(one["attempt"], one["pool"]) for one in record["earlier"]]
    assert earlier == [(1, "default"), (2, "default")]
    assert not compare_builds(moody_reference, folder / "build")


@pytest.mark.waits
def test_jobs_that_share_a_batch_job_move_together(slurm: Cluster, moody_reference: Path) -> None:
    """With a Snakemake on the node, which is told that it is in the fallback."""
    folder = prepared(slurm, "slurm", gpu={"config": {"retries": 0, "partitions_per_job": 3}})
    with drained(slurm, "gpu"):
        said = Run(slurm, folder / "workflow.yaml").ended()
    assert went(said) == 3
    assert tries(folder) == {"default data": 2, "default dy": 1}
    assert len({one["batch_job"] for one in moody(folder)}) == 1
    assert not compare_builds(moody_reference, folder / "build")


@pytest.mark.long
def test_jobs_that_are_sent_their_files_move_too(htcondor: Cluster) -> None:
    """The parcel is sent anew, to a node that shares nothing with this machine."""
    folder = prepared(htcondor, "htcondor")
    op = folder / "own_ops.py"
    op.write_text(op.read_text().replace("def run(", "def run_(") + WORKS)
    profiles = {"gpu": {"config": {"htcondor": PLACES["htcondor"]["gpu"]}}}
    analyses.site(folder, {**TRANSFER, "pool_profiles": profiles}, **HURRY["htcondor"])
    said = Run(htcondor, folder / "workflow.yaml").ended(seconds=300)
    assert went(said) == 3
    for record in moody(folder):
        assert (record["attempt"], record["waited_for"]) == (1, "gpu")
        assert record["asked"]["pool"] == "default"
    parcels = (folder / "build/smk/transfer").rglob("*")
    assert not [path for path in parcels if path.is_file()]
    assert not compare_builds(local_run(folder, folder / "workflow.yaml"), folder / "build")


#: Submits jobs that write their numbers into ``canaries``, and lets them wait for no time at all.
RACE = """\
import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from fasthep_smk.executors import fallback

COMMANDS = {
    "slurm": "sbatch --parsable --partition=gpu --job-name=race canary.sh {}",
    "htcondor": "condor_submit -terse canary.sub n={}",
}


def submitted(number):
    command = COMMANDS[sys.argv[1]].format(number).split()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rule, place = SimpleNamespace(name="canary"), {"n": number}
    job = SimpleNamespace(rule=rule, attempt=1, jobid=number, log=[], wildcards_dict=place)
    return SimpleNamespace(job=job, external_jobid=done.stdout.split(".")[0].strip())


moved = []
queue = fallback.WaitingJobs(lambda job: moved.append(job.jobid), lambda _: None)
jobs = [submitted(number) for number in range(int(sys.argv[2]))]
for job in jobs:
    queue.submitted(job)
Path("submitted").touch()
time.sleep(float(sys.argv[3]))
asked, leaving = queue.look(jobs)
while leaving:
    more, leaving = queue.look(leaving)
    asked += more
print(json.dumps({"moved": moved, "stay": [job.job.jobid for job in asked]}))
"""
CANARY = """\
#!/bin/sh
echo "$1" >>canaries
sleep 1
"""
SUBMIT = """\
executable = canary.sh
arguments = $(n)
should_transfer_files = no
initialdir = {folder}
request_memory = 10MB
queue
"""


@pytest.mark.parametrize("system", ["slurm", "htcondor"])
@pytest.mark.parametrize("number", some(range(30), 2))
def test_no_job_goes_that_starts_at_that_moment(
    system: str, number: int, request: pytest.FixtureRequest
) -> None:
    """Jobs become able to start while they are taken out: those that go have never started."""
    cluster: Cluster = request.getfixturevalue(system)
    folder, chance, jobs = cluster.new_folder(), random.Random(number), 8
    (folder / "smk").mkdir()
    asked = {"canary": [{"pool": "gpu"}, {"pool": "default"}]}
    said = {"system": system, "rules": asked, "fallback_after": {"canary": 0}}
    (folder / "smk/requests.json").write_text(json.dumps(said))
    (folder / "canary.sh").write_text(CANARY)
    (folder / "canary.sh").chmod(0o755)
    (folder / "canary.sub").write_text(SUBMIT.format(folder=folder))
    (folder / "race.py").write_text(RACE)
    analyses.given_away(folder)

    def open_pool() -> None:
        within(20, (folder / "submitted").exists)
        time.sleep(chance.uniform(0, 0.15))
        set_state(cluster, "gpu", "up")

    opener = threading.Thread(target=open_pool)
    # HTCondor starts what it has when it next negotiates.
    wait = chance.uniform(0, 0.1 if system == "slurm" else 4)
    with drained(cluster, "gpu") if system == "slurm" else nullcontext():
        if system == "slurm":
            opener.start()
        done = cluster.run(sys.executable, "race.py", system, str(jobs), str(wait), cwd=folder)
        if system == "slurm":
            opener.join()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert sorted(found["moved"] + found["stay"]) == [*range(jobs)]

    def canaries() -> list[int]:
        path = folder / "canaries"
        return sorted(map(int, path.read_text().split())) if path.exists() else []

    within(60, lambda: len(canaries()) >= len(found["stay"]))
    time.sleep(2)
    assert canaries() == sorted(found["stay"])


def within(seconds: float, condition: Callable[[], Any]) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.02)


@pytest.mark.long
@pytest.mark.parametrize("number", range(4))
def test_pilots_that_come_at_that_moment(
    slurm: Cluster, moody_reference: Path, number: int
) -> None:
    """The partition opens when the pilots in it are about to be taken out of its queue."""
    gpu = {"workers": 2, "config": {"retries": 0, "pilot": True}}
    folder = prepared(slurm, "slurm", gpu={"resources": {"memory": "1GB"}, **gpu})
    with drained(slurm, "gpu"):
        run = Run(slurm, folder / "workflow.yaml")
        run.until(lambda: jobs_of(slurm, folder))
        time.sleep(random.Random(number).uniform(4, 8))
    said = run.ended()
    assert sum(tries(folder).values()) == 3
    pools = Counter(one["asked"]["pool"] for one in moody(folder))
    assert pools["default"] == went(said)
    assert {one["attempt"] for one in moody(folder)} == {1}
    assert not (folder / "twice.txt").exists()
    assert not compare_builds(moody_reference, folder / "build")
