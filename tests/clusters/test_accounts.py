"""Analyses on a real Slurm with accounting: jobs that come to harm, answers that do not come."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import test_earlier_jobs as earlier
from tests.clusters.analyses import given_away, records, set_mood, site
from tests.clusters.conftest import Cluster
from tests.clusters.test_earlier_jobs import never_twice
from tests.clusters.test_fallback import prepared
from tests.clusters.test_slurm import (
    SETTINGS,
    Run,
    as_root,
    in_trouble,
    is_right,
    jobs_of,
    moody_reference,
    tries,
)
from tests.support.forms import LONG

__all__ = ["moody_reference"]
pytestmark = [pytest.mark.integration, pytest.mark.cluster, pytest.mark.xdist_group("accounts")]


@pytest.fixture(scope="session")
def slurm(accounts: Cluster) -> Cluster:
    """What the helpers of other tests call it."""
    return accounts


def submit(slurm: Cluster, folder: Path, *words: str) -> str:
    before = ("sbatch", "--parsable", "--output=/dev/null", "--partition=highmem")
    done = slurm.run(*before, *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def status(
    slurm: Cluster, folder: Path, *jobs: str, variables: dict[str, str] | None = None
) -> dict[str, str]:
    """What is known of jobs: kind and the system's own words."""
    code = (
        "import sys, json; from pathlib import Path; from fasthep_smk.sites import slurm;"
        "found = slurm.status(sys.argv[1:], Path.cwd());"
        "print(json.dumps({job: f'{one.kind} {one.said}' for job, one in found.items()}))"
    )
    before = ["env", *(f"{name}={value}" for name, value in (variables or {}).items())]
    done = slurm.run(*before, sys.executable, "-c", code, *jobs, cwd=folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


#: Stand before Slurm's own.
WRAPPERS = {
    "flaky": dict.fromkeys(("squeue", "sacct"), "[ $((RANDOM % 10)) -ge 3 ] || exit 1"),
    "silent": {"squeue": "exit 0"},
    "with a number": {"sbatch": "echo '*** 30 jobs a day ***'; echo 'on 5 nodes' >&2"},
    "without a number": {
        "sbatch": '/usr/bin/sbatch "$@" >/dev/null; code=$?; echo "*** node 99999 ***"; exit $code'
    },
    "with an error": {"sbatch": '/usr/bin/sbatch "$@" >/dev/null 2>&1; exit 1'},
}


def behind(folder: Path, kind: str) -> dict[str, str]:
    """The variables with which commands of Slurm's are found behind wrappers."""
    place = folder / f"bin {kind}"
    place.mkdir(exist_ok=True)
    for name, words in WRAPPERS[kind].items():
        path = place / name
        path.write_text(f'#!/bin/bash\n{words}\nexec /usr/bin/{name} "$@"\n')
        path.chmod(0o755)
    given_away(folder)
    return {"PATH": f"{place}:{os.environ['PATH']}"}


# What Slurm says of jobs.


@pytest.fixture(scope="module")
def ends(slurm: Cluster) -> tuple[Path, dict[str, str]]:
    """Jobs, by how they have ended; root has the same numbers in the other cluster."""
    folder = slurm.new_folder()
    nap, there = ["--wrap", "sleep 300"], ["--exclusive", "--nodelist=std2"]
    more = f"{sys.executable} -c 'import time; x = 400_000_000 * bytes([1]); time.sleep(60)'"
    jobs = {
        "runs": submit(slurm, folder, *nap),
        "over time": submit(slurm, folder, "--time=1", *nap),
        "done": submit(slurm, folder, "--wrap", "true"),
        "exit 3": submit(slurm, folder, "--wrap", "exit 3"),
        "held": submit(slurm, folder, "--hold", "--wrap", "true"),
        "memory": submit(slurm, folder, "--mem=50", "--wrap", more),
        "cancelled": submit(slurm, folder, *nap),
        "cancelled waiting": submit(slurm, folder, "--hold", "--wrap", "true"),
        "requeued": submit(slurm, folder, "--requeue", *nap),
        "node failed": submit(slurm, folder, "--partition=gpu", "--no-requeue", *nap),
        "preempted, requeued": submit(slurm, folder, "--partition=spot", "--requeue", *nap),
        "preempted": submit(slurm, folder, "--partition=spot", "--no-requeue", *nap),
        "elsewhere": submit(slurm, slurm.new_folder(), "--wrap", "true"),
    }
    array = submit(slurm, folder, "--array=1-2", "--wrap", "exit $((SLURM_ARRAY_TASK_ID - 1))")
    jobs |= {"first": f"{array}_1", "second": f"{array}_2", "nobody's": "999999"}
    begun = ("cancelled", "requeued", "node failed", "preempted, requeued", "preempted")
    until(lambda: {"RUNNING"} == set(states(slurm, *(jobs[one] for one in begun))))
    slurm.run("scancel", jobs["cancelled"], jobs["cancelled waiting"])
    as_root(slurm, "scontrol", "requeue", jobs["requeued"])
    as_root(slurm, "scontrol", "update", "nodename=gpu1", "state=down", "reason=test")
    last = submit(slurm, folder, "--partition=standard", *there, "--wrap", "true")
    ended = [jobs["second"].partition("_")[0], jobs["memory"], last]
    until(lambda: not {"RUNNING", "PENDING", "COMPLETING"} & set(states(slurm, *ended)))
    number = 0
    while number < int(last):
        words = ("sbatch", "--parsable", "--output=/dev/null", "--wrap", "true")
        number = int(west(slurm, *words))
    until(lambda: "COMPLETED" in west(slurm, "squeue", "-ho%T", "-tall", f"-j{number}"))
    return folder, jobs


def west(slurm: Cluster, *command: str) -> str:
    """What a command answers root in the other cluster."""
    env = {**os.environ, "SLURM_CONF": str(slurm.folder / "west/slurm.conf")}
    done = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=True)
    return done.stdout


def states(slurm: Cluster, *jobs: str) -> list[str]:
    shown = slurm.run(
        "squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={','.join(jobs)}"
    )
    return shown.stdout.split()


def until(condition: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.3)


ENDS = {
    "runs": "alive Slurm: RUNNING",
    "done": "done Slurm: COMPLETED",
    "exit 3": "failed Slurm: FAILED",
    "held": "alive Slurm: PENDING",
    "memory": "failed Slurm: (FAILED|OUT_OF_MEMORY)",
    "cancelled": "failed Slurm: CANCELLED",
    "cancelled waiting": "failed Slurm: CANCELLED",
    "requeued": "alive Slurm: (PENDING|RUNNING|REQUEUED)",
    "preempted, requeued": "alive Slurm: (PENDING|RUNNING|REQUEUED)",
    "over time": "(alive Slurm: RUNNING|failed Slurm: TIMEOUT)",
    "elsewhere": "gone",
    "first": "done",
    "second": "failed Slurm: FAILED",
    "nobody's": "gone",
    "preempted": "failed Slurm: PREEMPTED",
    "node failed": "failed Slurm: NODE_FAIL",
}


def test_each_end_is_heard_of_the_controller(
    slurm: Cluster, ends: tuple[Path, dict[str, str]]
) -> None:
    folder, jobs = ends
    found = status(slurm, folder, *jobs.values())
    for name, job in jobs.items():
        assert re.match(ENDS[name], found[job]), (name, found[job])


def test_each_end_is_heard_of_accounting(slurm: Cluster, ends: tuple[Path, dict[str, str]]) -> None:
    """The controller lists nothing any more; who goes on there is known to nobody."""
    folder, jobs = ends
    expected = {
        job: "gone|failed Slurm: TIMEOUT" if "alive" in ENDS[name] else ENDS[name]
        for name, job in jobs.items()
    }
    variables = behind(folder, "silent")
    found: dict[str, str] = {}

    def wrong() -> list[str]:
        found.update(status(slurm, folder, *expected, variables=variables))
        return [job for job, end in expected.items() if not re.match(end, found[job])]

    # The controller sends accounting what has ended in batches, some seconds later.
    late = time.monotonic() + 60
    while wrong() and time.monotonic() < late:
        time.sleep(1)
    assert not wrong(), (jobs, found)
    assert found[jobs["cancelled"]].startswith("failed Slurm: CANCELLED by 20001")


@pytest.mark.waits
def test_a_job_over_its_time_is_heard_of(slurm: Cluster, ends: tuple[Path, dict[str, str]]) -> None:
    """Slurm counts in minutes, and the controller forgets a job soon after its end."""
    folder, jobs = ends
    late = jobs["over time"]
    until(lambda: status(slurm, folder, late)[late].startswith("failed Slurm: TIMEOUT"), 150)


# Analyses.


def test_a_job_that_is_cancelled_is_tried_again(slurm: Cluster, moody_reference: Path) -> None:
    folder = in_trouble(slurm, sleep=30)
    run = Run(slurm, folder / "workflow.yaml")
    run.until(lambda: sum(tries(folder).values()) == 3)
    slurm.run("scancel", jobs_of(slurm, folder)[0])  # before it wakes up, and ends by itself
    set_mood(folder, awake=True)
    run.ended(seconds=60)
    assert sum(tries(folder).values()) == 4
    assert never_twice(folder)
    is_right(folder, moody_reference)


def test_a_job_that_is_asked_for_again(slurm: Cluster) -> None:
    earlier.test_a_job_is_submitted_again_when_asked_for(slurm)


def test_what_a_killed_run_has_left_is_cancelled(slurm: Cluster) -> None:
    earlier.test_cancel_ends_what_a_killed_run_has_left(slurm)


def test_a_job_that_was_taken_over_is_seen_while_it_runs(
    slurm: Cluster, moody_reference: Path
) -> None:
    """After ``kill -9``: one goes on, one is cancelled, and tried again."""
    folder, run, left = earlier.one_runs_one_waits(slurm)
    earlier.kill(run, folder)
    again = Run(slurm, folder / "workflow.yaml")
    again.says("2 jobs of an earlier run go on: 1 running, 1 waiting")
    time.sleep(5)
    assert set(left) == set(jobs_of(slurm, folder))
    slurm.run("scancel", left[0])
    again.until(lambda: len(set(jobs_of(slurm, folder)) - set(left)) == 1, 30)
    assert left[1] in jobs_of(slurm, folder)
    earlier.released(slurm, folder, again)
    assert left[1] in earlier.batch_jobs(folder)
    assert never_twice(folder)
    is_right(folder, moody_reference)


@pytest.mark.parametrize(
    "kind",
    ["flaky", "with a number", "without a number", pytest.param("with an error", marks=LONG)],
)
def test_commands_that_answer_badly_cost_no_attempt(
    slurm: Cluster, moody_reference: Path, kind: str
) -> None:
    """They fail 3 times in 10, or print more than a number, or something else, or nothing."""
    folder = in_trouble(slurm, sleep=2, retries=0)
    run = Run(slurm, folder / "workflow.yaml", variables=behind(folder, kind))
    run.ended()
    assert tries(folder) == {"data": 2, "dy": 1}
    assert [one["attempt"] for one in records(folder / "build")] == [1] * 4
    assert len(jobs_of(slurm, folder, "all")) <= 4
    is_right(folder, moody_reference)


def test_a_limit_of_jobs_is_waited_for(slurm: Cluster, moody_reference: Path) -> None:
    """QOS "few" lets a user have two jobs; there is one attempt."""
    folder = in_trouble(slurm, slurm_options={"qos": "few"}, retries=0, sleep=4)
    said = Run(slurm, folder / "workflow.yaml").ended()
    assert "Slurm accepts no more jobs now: the others wait: QOSMaxSubmitJobPerUser" in said
    assert "; workers: 2 in its pool stays below the limit" in said
    assert tries(folder) == {"data": 2, "dy": 1}
    assert [one["attempt"] for one in records(folder / "build")] == [1] * 4
    is_right(folder, moody_reference)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"account": "phisics"}, "this account; found: 'phisics'; expected: physics; hint: "),
        ({"account": "physics", "qos": "far"}, "this QOS; found: 'far'; expected: few or normal"),
        ({"account": "physics", "qos": "few"}, ""),
    ],
)
def test_what_slurm_does_not_let_this_user_name_is_refused_before_the_run(
    slurm: Cluster, options: dict[str, str], said: str
) -> None:
    folder = in_trouble(slurm, slurm_options=options)
    words = ["-m", "fasthep_smk", "check", "workflow.yaml", "--profile", "site"]
    done = slurm.run(sys.executable, *words, cwd=folder)
    assert done.returncode == (1 if said else 0), done.stderr
    told = "; ".join(line.strip() for line in done.stderr.splitlines())
    assert not said or f"Slurm does not let you use {said}" in told
    assert "pools.yaml" in told or not said


@pytest.mark.parametrize("partition", ["draining", pytest.param("closed", marks=LONG)])
def test_what_a_partition_refuses_goes_to_the_fallback(
    slurm: Cluster, moody_reference: Path, partition: str
) -> None:
    """It takes no jobs, or starts none; nobody has said for how long they may wait."""
    places = {"gpu": {"partition": partition}, "default": {"partition": "standard"}}
    never = {"fallback_after": None}
    folder = prepared(slurm, "slurm", retries=1, places=places, execution=never)
    said = Run(slurm, folder / "workflow.yaml").ended()
    if partition == "draining":
        assert "pool 'gpu' accepts no jobs, they go to pool 'default': " in said
    assert "refused by pool gpu: now in pool default" in said
    assert tries(folder) == {"data": 2, "dy": 1}
    is_right(folder, moody_reference)


@LONG
@pytest.mark.parametrize("kind", ["with a number", "without a number"])
def test_pilots_are_known_whose_number_is_not_understood(
    slurm: Cluster, moody_reference: Path, kind: str
) -> None:
    folder = in_trouble(slurm, sleep=1)
    site(folder, {"default": {"config": {"pilot": True}}}, **SETTINGS)
    run = Run(slurm, folder / "workflow.yaml", variables=behind(folder, kind))
    said = run.ended()
    assert "each job is a batch job of its own" not in said
    assert tries(folder) == {"data": 2, "dy": 1}
    until(lambda: not jobs_of(slurm, folder), 90)
    is_right(folder, moody_reference)


ROUNDS = int(os.environ.get("FASTHEP_SMK_CANARIES", "30"))


@LONG
@pytest.mark.parametrize("number", range(ROUNDS))
def test_no_job_runs_twice_at_a_time(slurm: Cluster, moody_reference: Path, number: int) -> None:
    """Commands answer badly; jobs are cancelled and requeued, runs killed and begun again."""
    dice = random.Random(number)
    folder = in_trouble(slurm, sleep=6, retries=9)
    variables = behind(folder, dice.choice(["flaky", "with a number", "without a number"]))
    run = Run(slurm, folder / "workflow.yaml", variables=variables)
    for _ in range(dice.randint(2, 4)):
        end = time.monotonic() + dice.uniform(2, 8)
        while run.process.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        jobs = jobs_of(slurm, folder, "RUNNING")
        harm = dice.choice(["cancel", "requeue", "kill"])
        if run.process.poll() is not None:
            break
        if harm == "kill":
            run.until(partial(can_be_killed, run, folder))
            if run.process.poll() is not None:
                break
            earlier.kill(run, folder)
            run = Run(slurm, folder / "workflow.yaml", variables=variables)
        elif jobs:
            job = dice.choice(jobs)
            slurm.run("scancel", job) if harm == "cancel" else requeue(slurm, job)
    set_mood(folder, awake=True)
    run.ended()
    assert never_twice(folder)
    is_right(folder, moody_reference)


def can_be_killed(run: Run, folder: Path) -> bool:
    """Whether a run has started Snakemake, or has ended: all jobs were done."""
    lock = folder / "build/smk/lock"
    has_ended = run.process.poll() is not None
    return has_ended or (lock.is_file() and '"snakemake"' in lock.read_text())


def requeue(slurm: Cluster, job: str) -> None:
    """Put a job back into the queue, and let it start again at once."""
    slurm.run("scontrol", "requeue", job)
    slurm.run("scontrol", "update", f"jobid={job}", "starttime=now")
