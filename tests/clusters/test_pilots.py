"""Pilots on a real Slurm and a real HTCondor: what runs where, and what becomes of jobs in trouble.

A pilot is a batch job that stays and runs one job of its pool after the other. A batch system does
nothing but start and end pilots, and all else is Parsl's and our worker's: the short form of a test
runs on one of the two, and only the long one (``make nightly``) runs all.

- **Short**, one test for each path: pools with pilots of their own, several jobs at a time,
  failures and time limits; a pilot that is lost; pilots that cannot start, that never come, that
  cannot go on; a job that is killed; a run that is stopped, and one that is killed.
- **Long**: all of it on the other system; the other ways to lose a pilot, its processes or node;
  the other ends of jobs; and all that has to wait for a time limit, or for a controller that is
  away.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clusters import analyses
from tests.clusters.conftest import Cluster, cluster
from tests.clusters.test_sites import on_both
from tests.clusters.test_slurm import (
    Run,
    as_root,
    is_right,
    moody_record,
    moody_reference,
    most_at_a_time,
    slurms_record,
    tries,
    without,
)
from tests.support.compare import compare_builds
from tests.support.forms import LONG

__all__ = ["moody_reference"]

pytestmark = [pytest.mark.integration, pytest.mark.cluster]

_QUICK = {"seconds-between-status-checks": 1}
SLURM = {"executor": "slurm", "slurm-init-seconds-before-status-checks": 1, **_QUICK}
HTCONDOR = {"executor": "htcondor", **_QUICK}
#: How the pools of the analyses are called on either.
POOLS: dict[str, dict[str, Any]] = {
    "default": {"config": {"walltime": "00:10:00", "slurm": {"partition": "standard"}}},
    "pool_profiles": {
        # HTCondor gives 128 MB to a job that says nothing, and holds it when it takes more.
        "default": {"resources": {"memory": "1GB"}},
        "high_memory": {"config": {"slurm": {"partition": "highmem"}}},
        "gpu": {"config": {"slurm": {"partition": "gpu"}}},
    },
}
PILOT = {"resources": {"memory": "1GB"}, "config": {"pilot": True}}


class System:
    """A batch system, with what is asked of it."""

    def __init__(self, kind: str, cluster: Cluster) -> None:
        self.kind, self.cluster = kind, cluster

    def start(self, workflow: Path, *options: str) -> Run:
        """A run of which each partition is a job."""
        return Run(self.cluster, workflow, "--granularity", "stage", *options)

    def folder(self) -> Path:
        folder = self.cluster.new_folder()
        (folder / "data").mkdir()
        return folder

    def site(self, folder: Path) -> None:
        analyses.site(folder, POOLS, **(SLURM if self.kind == "slurm" else HTCONDOR))

    def queue(self, folder: Path, called: str = "") -> dict[str, bool]:
        """The batch jobs of a folder's runs that are called so, and whether each of them runs."""
        ask = {
            "slurm": ("squeue", "--noheader", "--format=%i %t %j %Z"),
            "htcondor": ("condor_q", "-af", "ClusterId", "JobStatus", "JobBatchName", "Iwd"),
        }
        shown = self.cluster.run(*ask[self.kind], timeout=20)
        assert shown.returncode == 0, shown.stderr
        lines = [line.split(maxsplit=3) for line in shown.stdout.splitlines()]
        mine = [
            (job, state)
            for job, state, name, where in lines
            if where.startswith(str(folder)) and name.startswith(called)
        ]
        return {job: state in ("R", "2") for job, state in mine if state not in ("CG", "3")}

    def running_pilot(self, folder: Path) -> str:
        (pilot,) = [job for job, runs in self.queue(folder, "pilot:").items() if runs]
        return pilot

    def remove(self, job: str) -> None:
        command = "scancel" if self.kind == "slurm" else "condor_rm"
        assert self.cluster.run(command, job, timeout=20).returncode == 0


@pytest.fixture(scope="module")
def fragile() -> Iterator[System]:
    """A Slurm of one's own that may be broken."""
    name = f"slurm-pilots-{os.environ.get('PYTEST_XDIST_WORKER', 'only')}"
    with cluster("slurm", {"SLURM_CONF": "etc/slurm.conf"}, name=name) as running:
        yield System("slurm", running)


@pytest.fixture(params=["slurm", "htcondor"])
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    yield System(request.param, request.getfixturevalue(request.param))


def moody(system: System, pool: dict[str, Any], **mood: Any) -> Path:
    """The moody stage, in a pool of its own with pilots; three partitions in two datasets."""
    folder = system.folder()
    workflow = analyses.moody(folder, execution={"require": "moody"}, pools={"moody": pool})
    analyses.set_mood(folder, **mood)
    system.site(folder)
    return workflow


def finished(folder: Path) -> list[dict[str, Any]]:
    """The records of the moody jobs that have finished."""
    return [one for one in analyses.records(folder / "build") if one["rule"] == "stage_Moody"]


def processes(text: str, folder: Path) -> list[int]:
    """The processes of a folder's runs with this text in their command lines."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().decode(errors="replace")
            where = str((path / "cwd").readlink())
        except OSError:
            continue
        if text in words.replace("\0", " ") and str(folder) in where:
            found.append(int(path.name))
    return found


def open_files(path: Path) -> Iterator[Path]:
    """Where processes, in whatever name space, have a file open."""
    for found in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if found.samefile(path):
                yield found


def is_empty_within(system: System, folder: Path, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while system.queue(folder):
        if time.monotonic() > end:
            return False
        time.sleep(0.5)
    return True


@on_both("slurm")
def test_three_pools_have_pilots_of_their_own(system: System) -> None:
    folder = system.folder()
    workflow = analyses.three_pools(folder, each=1)
    plain = workflow.read_text()
    assert "\n  pools:\n" in plain
    workflow.write_text(plain.replace("\n  pools:\n", "\n  config: {pilot: true}\n  pools:\n"))
    system.site(folder)
    system.start(workflow, "-o", "ours").ended()
    theirs = analyses.at_home(folder, workflow.name, "theirs", "--shrink-to-fit")
    assert not compare_builds(theirs, folder / "ours")
    found = analyses.records(folder / "ours")
    of_pools: dict[str, set[str]] = {}
    for record in found:
        of_pools.setdefault(record["asked"]["pool"], set()).add(record["batch_job"])
    assert len(of_pools) == 3
    batch_jobs = set.union(*of_pools.values())
    assert sum(map(len, of_pools.values())) == len(batch_jobs) < len(found)
    # From the node's fork server, but for those that have several cpus.
    assert all(record["used"]["warm"] for record in found if record["threads"] == 1)
    assert not system.queue(folder)


@pytest.mark.waits
@on_both("htcondor")
def test_a_pilot_that_is_taken_away_gives_its_job_back(
    system: System, moody_reference: Path
) -> None:
    workflow = moody(system, {**PILOT, "workers": 1}, sleep=4)
    folder = workflow.parent
    # No other attempt would be made.
    run = system.start(workflow, "--", "--retries=0")
    run.until(lambda: tries(folder).total())
    pilot = system.running_pilot(folder)
    system.remove(pilot)
    end = {"slurm": "Slurm: CANCELLED", "htcondor": "HTCondor: removed: via condor_rm"}
    goes_on_without(pilot, end[system.kind], system, folder, run, moody_reference)


@LONG
def test_a_pilot_that_makes_way_for_others_gives_its_job_back(
    system: System, moody_reference: Path
) -> None:
    """Slurm cancels it for a job of a partition that goes first, HTCondor vacates its slot."""
    config = {"pilot": True, "slurm": {"partition": "spot"}}
    workflow = moody(system, {**PILOT, "workers": 1, "config": config}, sleep=4)
    folder = workflow.parent
    run = system.start(workflow, "--", "--retries=0")
    run.until(lambda: tries(folder).total())
    pilot = system.running_pilot(folder)
    evict = {
        "slurm": ("sbatch", "--nodelist=std2", "--exclusive", "--wrap=sleep 5"),
        "htcondor": ("condor_vacate_job", pilot),
    }
    assert system.cluster.run(*evict[system.kind], timeout=20).returncode == 0
    end = {"slurm": "Slurm: PREEMPTED", "htcondor": "HTCondor: evicted from its machine"}
    goes_on_without(pilot, end[system.kind], system, folder, run, moody_reference)


def goes_on_without(
    pilot: str, end: str, system: System, folder: Path, run: Run, reference: Path
) -> None:
    """A pilot leaves the queue, the run says how it has ended, and ends well itself."""
    run.until(lambda: pilot not in system.queue(folder))
    analyses.set_mood(folder)
    said = run.ended()
    assert f"pool 'moody': pilot {pilot} was lost: {end}" in said
    is_done_once_more(folder, said, reference)


def is_done_once_more(folder: Path, said: str, reference: Path) -> None:
    """The job that was under way in a lost pilot has run again, and none of the others."""
    assert said.count("its jobs run again") == 1
    assert tries(folder).total() == 4
    assert {record["attempt"] for record in analyses.records(folder / "build")} == {1}
    assert not (folder / "twice.txt").exists()
    is_right(folder, reference)


@LONG
@pytest.mark.parametrize("what", ["contrib.pilots.manager", "contrib.pilots.node"])
def test_a_pilot_whose_process_is_killed_gives_its_job_back(system: System, what: str) -> None:
    workflow = moody(system, {**PILOT, "workers": 1}, sleep=4)
    folder = workflow.parent
    run = system.start(workflow)
    run.until(lambda: tries(folder).total())
    for process in processes(what, folder):
        with contextlib.suppress(ProcessLookupError):  # it has ended with the one before
            os.kill(process, signal.SIGKILL)
    run.ended()
    assert tries(folder).total() == 4
    assert {record["attempt"] for record in analyses.records(folder / "build")} == {1}
    end = time.monotonic() + 10  # the other pilots are taken out of the queue when all is done
    while left := processes("contrib.pilots.manager", folder):
        assert time.monotonic() < end, left
        time.sleep(0.2)


@on_both("slurm")
def test_without_the_interchange_jobs_are_batch_jobs_of_their_own(system: System) -> None:
    workflow = moody(system, {**PILOT, "workers": 1}, sleep=4)
    folder = workflow.parent
    run = system.start(workflow)
    run.until(lambda: tries(folder).total())
    for process in processes("HTEX interchange", folder):
        os.kill(process, signal.SIGKILL)
    said = run.ended()
    assert (
        "pool 'moody': pilots cannot be used, each job is a batch job of its own now: Parsl's "
        "interchange has ended, signal 9 (killed)"
    ) in " ".join(said.split())
    assert tries(folder).total() == 4
    # As many at a time as the pool has workers.
    spans = [(one["started"], one["ended"]) for one in finished(folder)]
    assert most_at_a_time(spans) == 1


@on_both("slurm")
def test_a_run_that_is_stopped_leaves_no_pilot(system: System) -> None:
    workflow = moody(system, PILOT, sleep=30)
    folder = workflow.parent
    run = system.start(workflow)
    run.until(lambda: tries(folder).total())
    run.process.send_signal(signal.SIGINT)
    run.process.wait(timeout=60)
    assert is_empty_within(system, folder, 20)


@on_both("htcondor")
def test_after_a_kill_pilots_end_and_the_next_call_goes_on(
    system: System, moody_reference: Path
) -> None:
    """What ran in a pilot runs again, and what has finished does not."""
    workflow = moody(system, {**PILOT, "workers": 1}, sleep={"dy": 600})
    folder = workflow.parent
    run = system.start(workflow)
    run.until(lambda: tries(folder)["dy"] and len(finished(folder)) == tries(folder)["data"])
    before = tries(folder).total()
    snakemake = f"fasthep_smk.executors.{system.kind}"
    for process in processes(snakemake, folder) + processes("bin/fasthep-smk", folder):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
    killed = time.monotonic()
    run.process.wait(timeout=60)
    analyses.set_mood(folder)
    again = system.start(workflow)
    again.says(" jobs to run", 120)
    has_ended = time.monotonic() > killed + 25  # by itself, before anybody could cancel it
    said = again.ended()
    assert has_ended or ("1 pilot of an earlier run cancelled: a pilot ends with its run" in said)
    assert tries(folder)["dy"] == 2
    assert tries(folder).total() == 4 >= before
    assert is_empty_within(system, folder, 60)
    is_right(folder, moody_reference)


@on_both("slurm")
def test_one_pilot_runs_several_jobs_at_a_time(system: System) -> None:
    pool = {**PILOT, "workers": 1, "config": {"pilot": {"tasks": 3}}}
    workflow = moody(system, pool, sleep=4)
    system.start(workflow).ended()
    found = [
        one for one in analyses.records(workflow.parent / "build") if one["rule"] == "stage_Moody"
    ]
    assert len(found) == 3
    assert len({one["batch_job"] for one in found}) == 1
    assert max(one["started"] for one in found) < min(one["ended"] for one in found)


@on_both("htcondor")
def test_failures_and_time_limits_in_a_pilot_are_told_as_ever(system: System) -> None:
    pool = {"config": {"pilot": True, "walltime": "00:00:05", "retries": 0}}
    workflow = moody(system, pool, fail="data/data_0.root", sleep={"dy": 60})
    said = system.start(workflow, "--keep-going").ended(1)
    assert "RuntimeError: as the mood says" in said
    assert "the time limit of pool 'moody', 00:00:05, has passed" in said


@on_both("slurm")
def test_a_pilot_that_cannot_start_is_replaced_by_batch_jobs(system: System) -> None:
    wrong = {"slurm": {"extra": "--bogus"}, "htcondor": {"requirements": "(("}}
    pool = {"config": {"pilot": True, **wrong}}
    workflow = moody(system, pool)
    said = system.start(workflow).ended(1)
    told = [line for line in said.splitlines() if "pilots cannot be used" in line]
    sentence = {"slurm": "unrecognized option '--bogus'", "htcondor": "Parse error in expression"}
    assert len(told) == 1
    assert sentence[system.kind] in told[0]


@on_both("htcondor")
def test_a_pool_whose_pilots_never_come_is_left_for_the_fallback(system: System) -> None:
    never = {"slurm": {"extra": "--begin=now+2hours"}, "htcondor": {"requirements": "False"}}
    pool = {**PILOT, "fallback_after": "00:00:05", "config": {"pilot": True, **never}}
    workflow = moody(system, pool)
    folder = workflow.parent
    text = workflow.read_text().replace("require: moody", "require: moody\n      fallback: default")
    workflow.write_text(text)
    said = system.start(workflow).ended()
    assert "pool 'moody': none of its pilots has started" in said
    assert said.count("waited 00:00:05 for pool moody: now in pool default") == 3
    assert tries(folder).total() == 3
    found = [one for one in analyses.records(folder / "build") if one["rule"] == "stage_Moody"]
    assert {one["asked"]["pool"] for one in found} == {"default"}
    assert not system.queue(folder)


# What goes wrong.


@LONG
def test_a_pool_whose_pilots_are_refused_is_no_matter_of_another(
    system: System,
) -> None:
    """The other one still gets pilots, also in place of one that is lost."""
    wrong = {"slurm": {"extra": "--bogus"}, "htcondor": {"requirements": "(("}}
    workflow = moody(system, {**PILOT, "workers": 1}, sleep=4)
    folder = workflow.parent
    document = yaml.safe_load(workflow.read_text())
    document["execution"]["pools"]["bad"] = {"config": {"pilot": True, "retries": 0, **wrong}}
    met = document["analysis"]["stages"].pop()
    document["analysis"]["stages"].insert(0, {**met, "execution": {"require": "bad"}})
    workflow.write_text(yaml.safe_dump(document))
    run = system.start(workflow, "--keep-going")
    run.says("pool 'bad': pilots cannot be used", 120)
    run.until(lambda: tries(folder).total())
    system.remove(system.running_pilot(folder))
    run.ended(1)
    assert tries(folder).total() == 4
    assert len(finished(folder)) == 3


@on_both("slurm")
def test_a_job_that_is_killed_in_a_pilot_has_not_lost_it(
    system: System, moody_reference: Path
) -> None:
    """What has ended it is said, not what the batch system says of the pilot."""
    pool = {**PILOT, "workers": 1, "config": {"pilot": True, "retries": 0}}
    workflow = moody(system, pool, sleep={"dy": 600})
    folder = workflow.parent
    run = system.start(workflow, "--keep-going")
    run.until(lambda: tries(folder)["dy"])
    (job,) = [int(open_file.parts[2]) for open_file in open_files(folder / "dy_0.root.canary")]
    os.kill(job, signal.SIGKILL)
    said = run.ended(1)
    assert "failed: signal 9 (killed): usually because memory ran out" in said
    assert "Slurm: " not in said
    assert "HTCondor: " not in said
    assert len({one["batch_job"] for one in finished(folder)}) == 1
    analyses.set_mood(folder)
    system.start(workflow).ended()
    is_right(folder, moody_reference)


@LONG
def test_a_job_that_fails_in_a_pilot_is_tried_again(system: System, moody_reference: Path) -> None:
    pool = {**PILOT, "workers": 1, "config": {"pilot": True, "retries": 1}}
    workflow = moody(system, pool, fail="data/dy_0.root", sleep={"dy": 5})
    folder = workflow.parent
    run = system.start(workflow)
    run.until(lambda: tries(folder)["dy"])
    analyses.set_mood(folder)
    run.ended()
    record = moody_record(folder)
    assert (record["attempt"], [one["kind"] for one in record["earlier"]]) == (2, ["error"])
    assert tries(folder) == {"data": 2, "dy": 2}
    is_right(folder, moody_reference)


@LONG
def test_a_job_in_a_pilot_that_runs_out_of_memory_gets_more(
    system: System, moody_reference: Path
) -> None:
    """Its second attempt has pilots of its own, which share the workers of the pool."""
    pool = {"workers": 1, "resources": {"memory": "2GB"}, "config": {"pilot": True, "retries": 1}}
    workflow = moody(system, pool, memory=1_200_000_000)
    folder = workflow.parent
    document = yaml.safe_load(workflow.read_text())
    document["analysis"]["stages"][0]["execution"]["resources"] = {"memory": "800MB"}
    workflow.write_text(yaml.safe_dump(document))
    run = system.start(workflow)
    most = 0

    def is_done() -> bool:
        nonlocal most
        most = max(most, len(system.queue(folder, "pilot:moody")))
        return run.process.poll() is not None

    while not is_done():
        time.sleep(0.5)
    run.ended()
    record = moody_record(folder)
    assert (record["attempt"], record["asked"]["memory"]) == (2, 1600 * 10**6)
    assert [one["kind"] for one in record["earlier"]] == ["memory"]
    assert tries(folder) == {"data": 4, "dy": 2}
    assert most == 1
    is_right(folder, moody_reference)


@LONG
def test_a_job_that_has_lost_three_pilots_has_failed(system: System, moody_reference: Path) -> None:
    pool = {**PILOT, "workers": 1, "config": {"pilot": True, "retries": 0}}
    workflow = moody(system, pool, sleep={"dy": 600})
    folder = workflow.parent
    run = system.start(workflow, "--keep-going")
    for number in (1, 2, 3):
        run.until(lambda number=number: tries(folder)["dy"] == number, 180)
        system.remove(system.running_pilot(folder))
    said = run.ended(1)
    assert "3 pilots that ran it were lost; the last one: " in said
    analyses.set_mood(folder)
    system.start(workflow).ended()
    assert tries(folder) == {"data": 2, "dy": 4}
    is_right(folder, moody_reference)


@LONG
def test_a_job_that_is_longer_than_its_pilots_ends_with_the_fix(
    system: System, moody_reference: Path
) -> None:
    """It is not tried for ever, nor at another attempt, which would have no more time."""
    config = {"pilot": {"walltime": "00:01:00"}, "retries": 2}
    workflow = moody(system, {**PILOT, "workers": 1, "config": config}, sleep={"dy": 600})
    folder = workflow.parent
    pools = {name: one for name, one in POOLS.items() if name != "default"}
    analyses.site(folder, pools, **(SLURM if system.kind == "slurm" else HTCONDOR))
    run = system.start(workflow, "--keep-going")
    said = " ".join(run.ended(1, seconds=580).split())
    fix = "give pool 'moody' a walltime, as long as one of its jobs takes at most"
    assert (
        said.count(f"pool 'moody': a pilot ends after 00:01:00, and so does a job in it: {fix}")
        == 1
    )
    assert "3 pilots that ran it reached their time limit; the last one: " in said
    assert f"fix: {fix}" in said
    assert tries(folder)["dy"] == 3
    analyses.set_mood(folder)
    system.start(workflow).ended()
    is_right(folder, moody_reference)


@LONG
def test_a_pilot_without_work_ends(system: System) -> None:
    workflow = moody(system, {**PILOT, "workers": 3}, sleep={"dy": 600})
    folder = workflow.parent
    run = system.start(workflow)
    run.until(lambda: len(finished(folder)) == 2 and tries(folder)["dy"])
    run.until(lambda: len(system.queue(folder, "pilot:")) == 1, 180)
    assert tries(folder)["dy"] == 1
    run.process.send_signal(signal.SIGINT)
    run.process.wait(timeout=60)


@LONG
def test_no_job_is_started_in_a_pilot_that_cannot_see_its_end(
    system: System, moody_reference: Path
) -> None:
    """One that lasts three minutes, of which a job may take one, starts none in the last two."""
    times = {"walltime": "00:01:00", "pilot": {"walltime": "00:03:00"}}
    pool = {**PILOT, "workers": 1, "config": times}
    workflow = moody(system, pool, sleep=35)
    folder = workflow.parent
    system.start(workflow).ended(seconds=500)
    assert len({one["batch_job"] for one in finished(folder)}) > 1
    assert tries(folder) == {"data": 2, "dy": 1}
    is_right(folder, moody_reference)


@LONG
def test_no_pilot_is_asked_for_that_its_partition_has_no_time_for(
    slurm: Cluster, moody_reference: Path
) -> None:
    """Two minutes, where it would take an hour: it would wait for ever."""
    system = System("slurm", slurm)
    config = {"pilot": True, "walltime": "00:00:30", "slurm": {"partition": "short"}}
    workflow = moody(system, {**PILOT, "config": config})
    folder = workflow.parent
    said = " ".join(system.start(workflow).ended().split())
    assert "a pilot may last 00:02:00, too short for a job of 00:00:30" in said
    assert len({one["batch_job"] for one in finished(folder)}) == 3
    is_right(folder, moody_reference)


@LONG
def test_a_node_that_dies_gives_its_jobs_to_other_pilots(
    fragile: System, moody_reference: Path
) -> None:
    """At the same attempt, and once each."""
    pool = {**PILOT, "workers": 3, "config": {"pilot": True, "retries": 0}}
    workflow = moody(fragile, pool, sleep=20)
    folder = workflow.parent
    run = fragile.start(workflow)
    run.until(lambda: tries(folder).total() == 3)
    notes = (folder / "build").glob("smk/failures/stage_Moody/*.json")
    pilots = [json.loads(note.read_text())["batch_job"] for note in notes]
    nodes = [slurms_record(fragile.cluster, pilot)["NodeList"] for pilot in pilots]
    with without(fragile.cluster, nodes[0]):
        down = ("scontrol", "update", f"nodename={nodes[0]}", "state=down", "reason=test")
        as_root(fragile.cluster, *down)
        run.ended()
    assert tries(folder).total() == 3 + nodes.count(nodes[0])
    assert {one["attempt"] for one in finished(folder)} == {1}
    assert not (folder / "twice.txt").exists()
    is_right(folder, moody_reference)


@LONG
def test_a_node_that_is_drained_keeps_its_pilot_and_gets_no_other(
    fragile: System, moody_reference: Path
) -> None:
    pool = {**PILOT, "workers": 1, "config": {"pilot": True, "retries": 0}}
    workflow = moody(fragile, pool, sleep=20)
    folder = workflow.parent
    run = fragile.start(workflow)
    run.until(lambda: tries(folder).total())
    (pilot,) = fragile.queue(folder, "pilot:")
    node = slurms_record(fragile.cluster, pilot)["NodeList"]
    as_root(fragile.cluster, "scontrol", "update", f"nodename={node}", "state=drain", "reason=test")
    try:
        run.until(lambda: tries(folder).total() == 2, 180)  # the next job runs in it, too
        assert list(fragile.queue(folder, "pilot:")) == [pilot]
        fragile.remove(pilot)
        said = run.ended()
    finally:
        as_root(fragile.cluster, "scontrol", "update", f"nodename={node}", "state=resume")
    assert f"pilot {pilot} was lost: Slurm: CANCELLED" in said
    nodes = {
        slurms_record(fragile.cluster, one["batch_job"])["NodeList"] for one in finished(folder)
    }
    assert len(nodes) == 2
    assert {one["attempt"] for one in finished(folder)} == {1}
    assert not (folder / "twice.txt").exists()
    is_right(folder, moody_reference)


@LONG
@pytest.mark.parametrize("when", ["submission", "work"])
def test_a_controller_that_is_away_costs_nothing(
    fragile: System, moody_reference: Path, when: str
) -> None:
    """Pilots go on, one that is lost is replaced when it answers, and no job runs twice."""
    pool = {**PILOT, "workers": 2, "config": {"pilot": True, "retries": 0}}
    workflow = moody(fragile, pool, sleep=15)
    folder = workflow.parent
    run = fragile.start(workflow)
    if when == "work":
        run.until(lambda: tries(folder).total() == 2)
        notes = (folder / "build").glob("smk/failures/stage_Moody/*.json")
        lost = json.loads(next(notes).read_text())["batch_job"]
    else:
        run.until(lambda: processes("HTEX interchange", folder), 300)
    with without(fragile.cluster, "slurmctld"):
        if when == "work":
            for process in processes("contrib.pilots.manager", folder):
                if f"SLURM_JOB_ID={lost}\0" in Path(f"/proc/{process}/environ").read_text():
                    os.kill(process, signal.SIGKILL)
        time.sleep(30)
    run.ended()
    # A controller that is killed may not have written down that a pilot has begun, and ends it.
    lost = run.text.count(" was lost: ")
    assert 3 + (when == "work") <= tries(folder).total() <= 3 + lost
    assert {one["attempt"] for one in finished(folder)} == {1}
    assert "pilots cannot be used" not in run.text
    assert not (folder / "twice.txt").exists()
    is_right(folder, moody_reference)
