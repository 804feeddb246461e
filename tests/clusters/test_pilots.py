"""Pilots on a real Slurm and a real HTCondor: what runs where, and what becomes of jobs in trouble.

A pilot is a batch job that stays and runs one job of its pool after the other.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import analyses
from tests.clusters.conftest import Cluster
from tests.support.compare import compare_builds
from tests.support.forms import LONG

pytestmark = [pytest.mark.integration, pytest.mark.cluster]

_QUICK = {"seconds-between-status-checks": 1}
SLURM = {"executor": "slurm", "slurm-init-seconds-before-status-checks": 1, **_QUICK}
HTCONDOR = {"executor": "htcondor", **_QUICK}
#: How the pools of the analyses are called on either.
POOLS: dict[str, dict[str, Any]] = {
    "default": {"config": {"walltime": "00:10:00", "slurm": {"partition": "standard"}}},
    "pool_profiles": {
        "high_memory": {"config": {"slurm": {"partition": "highmem"}}},
        "gpu": {"config": {"slurm": {"partition": "gpu"}}},
    },
}
PILOT = {"resources": {"memory": "1GB"}, "config": {"pilot": True}}


class System:
    """A batch system, with what is asked of it."""

    def __init__(self, kind: str, cluster: Cluster) -> None:
        self.kind, self.cluster = kind, cluster

    def folder(self) -> Path:
        folder = self.cluster.new_folder()
        (folder / "data").mkdir()
        return folder

    def site(self, folder: Path) -> None:
        analyses.site(folder, POOLS, **(SLURM if self.kind == "slurm" else HTCONDOR))

    def queue(self, folder: Path) -> dict[str, bool]:
        """The batch jobs of a folder's runs, and whether each of them runs."""
        ask = {
            "slurm": ("squeue", "--noheader", "--format=%i %t %Z"),
            "htcondor": ("condor_q", "-af", "ClusterId", "JobStatus", "Iwd"),
        }
        shown = self.cluster.run(*ask[self.kind], timeout=20)
        assert shown.returncode == 0, shown.stderr
        lines = [line.split(maxsplit=2) for line in shown.stdout.splitlines()]
        mine = [(job, state) for job, state, where in lines if where.startswith(str(folder))]
        return {job: state in ("R", "2") for job, state in mine if state not in ("CG", "3")}

    def remove(self, job: str) -> None:
        command = "scancel" if self.kind == "slurm" else "condor_rm"
        assert self.cluster.run(command, job, timeout=20).returncode == 0


class Run:
    """A ``fasthep-smk`` under way; what it says, line by line."""

    def __init__(self, system: System, workflow: Path, *options: str) -> None:
        self.lines: list[str] = []
        self.process = analyses.start(system.cluster, workflow, "--profile", "site", *options)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(self.process.stdout)

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def until(self, condition: Callable[[], Any], seconds: float = 120) -> Any:
        end = time.monotonic() + seconds
        while not (found := condition()):
            assert self.process.poll() is None, f"it ended before:\n{self.text}"
            assert time.monotonic() < end, f"not within {seconds} s:\n{self.text}"
            time.sleep(0.2)
        return found

    def ended(self, status: int = 0, seconds: float = 300) -> str:
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            self.process.wait(timeout=60)
            pytest.fail(f"no end within {seconds} s:\n{self.text}")
        self._reader.join(timeout=10)
        assert self.process.returncode == status, self.text
        assert "Traceback" not in self.text
        return self.text


@pytest.fixture(params=["slurm", "htcondor"])
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    yield System(request.param, request.getfixturevalue(request.param))


def tries(folder: Path) -> Counter[str]:
    """How often the moody op was started, by dataset."""
    path = folder / "tries.txt"
    text = path.read_text() if path.exists() else ""
    return Counter(line.split()[1] for line in text.splitlines())


def moody(system: System, pool: dict[str, Any], **mood: Any) -> Path:
    """The moody stage, in a pool of its own with pilots; three partitions in two datasets."""
    folder = system.folder()
    workflow = analyses.moody(folder, execution={"require": "moody"}, pools={"moody": pool})
    analyses.set_mood(folder, **mood)
    system.site(folder)
    return workflow


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


def is_empty_within(system: System, folder: Path, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while system.queue(folder):
        if time.monotonic() > end:
            return False
        time.sleep(0.5)
    return True


def test_three_pools_have_pilots_of_their_own(system: System) -> None:
    folder = system.folder()
    workflow = analyses.three_pools(folder)
    plain = workflow.read_text()
    assert "\n  pools:\n" in plain
    workflow.write_text(plain.replace("\n  pools:\n", "\n  config: {pilot: true}\n  pools:\n"))
    system.site(folder)
    Run(system, workflow, "--granularity", "stage", "-o", "ours").ended()
    at_home = [analyses.FASTHEP_SMK, workflow.name, "-o", "theirs", "--shrink-to-fit"]
    subprocess.run(at_home, cwd=folder, check=True, capture_output=True)
    assert not compare_builds(folder / "theirs", folder / "ours")
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


def test_a_pilot_that_is_taken_away_gives_its_job_back(system: System) -> None:
    workflow = moody(system, {**PILOT, "workers": 1}, sleep=4)
    folder = workflow.parent
    # No other attempt would be made.
    run = Run(system, workflow, "--granularity", "stage", "--", "--retries=0")
    run.until(lambda: tries(folder).total())
    (pilot,) = [job for job, runs in system.queue(folder).items() if runs]
    system.remove(pilot)
    run.ended()
    # The job that was under way has run again, and none of the others.
    assert tries(folder).total() == 4
    assert {record["attempt"] for record in analyses.records(folder / "build")} == {1}


@pytest.mark.parametrize("what", ["process_worker_pool", pytest.param("run.pilot", marks=LONG)])
def test_a_pilot_whose_process_is_killed_gives_its_job_back(system: System, what: str) -> None:
    workflow = moody(system, {**PILOT, "workers": 1}, sleep=4)
    folder = workflow.parent
    run = Run(system, workflow, "--granularity", "stage")
    run.until(lambda: tries(folder).total())
    for process in processes(what, folder):
        os.kill(process, signal.SIGKILL)
    run.ended()
    assert tries(folder).total() == 4
    assert {record["attempt"] for record in analyses.records(folder / "build")} == {1}


def test_without_the_interchange_jobs_are_batch_jobs_of_their_own(system: System) -> None:
    workflow = moody(system, {**PILOT, "workers": 1}, sleep=4)
    folder = workflow.parent
    run = Run(system, workflow, "--granularity", "stage")
    run.until(lambda: tries(folder).total())
    for process in processes("HTEX interchange", folder):
        os.kill(process, signal.SIGKILL)
    said = run.ended()
    assert (
        "pool 'moody': pilots cannot be used, each job is a batch job of its own now: Parsl's "
        "interchange has ended, status -9"
    ) in " ".join(said.split())
    assert tries(folder).total() == 4


def test_a_run_that_is_stopped_leaves_no_pilot(system: System) -> None:
    workflow = moody(system, PILOT, sleep=30)
    folder = workflow.parent
    run = Run(system, workflow, "--granularity", "stage")
    run.until(lambda: tries(folder).total())
    run.process.send_signal(signal.SIGINT)
    run.process.wait(timeout=60)
    assert is_empty_within(system, folder, 20)


def test_after_a_kill_pilots_end_and_the_next_call_goes_on(system: System) -> None:
    workflow = moody(system, {**PILOT, "workers": 1}, sleep=3)
    folder = workflow.parent
    run = Run(system, workflow, "--granularity", "stage")
    run.until(lambda: tries(folder).total() >= 2)
    for process in processes("fasthep_smk.executors", folder) + processes("fasthep-smk", folder):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
    run.process.wait(timeout=20)
    Run(system, workflow, "--granularity", "stage").ended()
    assert tries(folder).total() == 4
    assert is_empty_within(system, folder, 60)


def test_one_pilot_runs_several_jobs_at_a_time(system: System) -> None:
    pool = {**PILOT, "workers": 1, "config": {"pilot": {"tasks": 3}}}
    workflow = moody(system, pool, sleep=4)
    Run(system, workflow, "--granularity", "stage").ended()
    found = [
        one for one in analyses.records(workflow.parent / "build") if one["rule"] == "stage_Moody"
    ]
    assert len(found) == 3
    assert len({one["batch_job"] for one in found}) == 1
    assert max(one["started"] for one in found) < min(one["ended"] for one in found)


def test_a_job_of_a_pilot_keeps_to_its_time(system: System) -> None:
    pool = {"config": {"pilot": True, "walltime": "00:00:05", "retries": 0}}
    workflow = moody(system, pool, sleep=60)
    said = Run(system, workflow, "--granularity", "stage").ended(1)
    assert "the time limit of pool 'moody', 00:00:05, has passed" in said


def test_a_failure_in_a_pilot_is_told_as_ever(system: System) -> None:
    workflow = moody(system, {"config": {"pilot": True, "retries": 0}}, fail=True)
    said = Run(system, workflow, "--granularity", "stage").ended(1)
    assert "RuntimeError: as the mood says" in said


def test_a_pilot_that_cannot_start_is_replaced_by_batch_jobs(system: System) -> None:
    wrong = {"slurm": {"extra": "--bogus"}, "htcondor": {"requirements": "(("}}
    pool = {"config": {"pilot": True, **wrong}}
    workflow = moody(system, pool)
    said = Run(system, workflow, "--granularity", "stage").ended(1)
    told = [line for line in said.splitlines() if "pilots cannot be used" in line]
    sentence = {"slurm": "unrecognized option '--bogus'", "htcondor": "Parse error in expression"}
    assert len(told) == 1
    assert sentence[system.kind] in told[0]


def test_a_pool_whose_pilots_never_come_is_left_for_the_fallback(system: System) -> None:
    never = {"slurm": {"extra": "--begin=now+2hours"}, "htcondor": {"requirements": "False"}}
    pool = {**PILOT, "fallback_after": "00:00:05", "config": {"pilot": True, **never}}
    workflow = moody(system, pool)
    folder = workflow.parent
    text = workflow.read_text().replace("require: moody", "require: moody\n      fallback: default")
    workflow.write_text(text)
    said = Run(system, workflow, "--granularity", "stage").ended()
    assert "pool 'moody': none of its pilots has started" in said
    assert said.count("waited 00:00:05 for pool moody: now in pool default") == 3
    assert tries(folder).total() == 3
    found = [one for one in analyses.records(folder / "build") if one["rule"] == "stage_Moody"]
    assert {one["asked"]["pool"] for one in found} == {"default"}
    assert not system.queue(folder)
