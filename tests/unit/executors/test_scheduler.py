"""Which jobs start: those that fit, as with Snakemake's own scheduler, and what a run needs."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fasthep_smk.executors import credential_gate, fallback, scheduler
from fasthep_smk.executors.scheduler import Scheduler, fitting

#: What there is: two pools, and more cores than anybody uses.
LIMITS = {"_cores": 1000, "_nodes": 100, "pool_cpu": 2, "pool_gpu": 1, "_job_count": 1000}


class Job(SimpleNamespace):
    """A job as Snakemake has it: its first attempt was evaluated, and this one."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(self, name: str, *, priority: int = 0, size: int = 0, **asked: object) -> None:
        own = {"_cores": 1, "_nodes": 1, **asked}
        first = {**own, "_job_count": 1}
        super().__init__(
            name=name, priority=priority, input=[size], resources=own, scheduler_resources=first
        )


class Bench:
    """A scheduler of a run, and what of Snakemake it sees."""

    def __init__(self) -> None:
        self.running = set[Any]()
        self.snakemake = SimpleNamespace(running=self.running)
        workflow = SimpleNamespace(deployment_settings=None, scheduler=self.snakemake)
        dag: Any = SimpleNamespace(workflow=workflow)
        self.scheduler = Scheduler(dag, None, None)

    def choose(self, *jobs: Any, rate: int = 1000) -> set[str]:
        """The names of those that start; Snakemake keeps no count of what they take."""
        sizes = {one: one for job in jobs for one in job.input}
        chosen = self.scheduler.select_jobs(jobs, [], {**LIMITS, "_job_count": rate}, sizes)
        self.running.update(chosen)
        assert len(set(chosen)) == len(chosen)
        return {job.name for job in chosen}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(scheduler, "is_left", [])
    monkeypatch.setattr(scheduler, "set_limits", [])
    of_run = fallback.sizes_of_run, credential_gate.gate_of_run
    for one in of_run:
        one.cache_clear()
    yield Bench()
    for one in of_run:
        one.cache_clear()


def test_all_start_that_fit_the_most_urgent_and_the_largest_first(bench: Bench) -> None:
    urgent, large, small = (
        Job("urgent", priority=1, pool_cpu=1),
        Job("large", size=9, pool_cpu=1),
        Job("small", size=1, pool_cpu=1),
    )
    assert bench.choose(small, large, urgent) == {"urgent", "large"}
    assert bench.choose(small) == set()
    bench.running.clear()
    assert bench.choose(small) == {"small"}


def test_no_more_start_than_snakemake_has_a_rate_for(bench: Bench) -> None:
    jobs = [Job(f"{number}", pool_cpu=0) for number in range(7)]
    for count in (3, 3, 1):  # however many are under way
        assert len(bench.choose(*(set(jobs) - bench.running), rate=3)) == count


def test_a_job_counts_where_it_is_now(bench: Bench) -> None:
    """Snakemake keeps what the first attempt counts against."""
    moved = Job("moved", pool_cpu=0, pool_gpu=1)
    moved.resources = {**moved.resources, "pool_cpu": 1, "pool_gpu": 0}
    assert bench.choose(moved, Job("gpu", pool_gpu=1)) == {"moved", "gpu"}
    jobs = [Job(f"cpu{number}", pool_cpu=1) for number in range(3)]
    assert len(bench.choose(*jobs)) == 1


def test_what_goes_on_already_counts_first_and_beyond_the_limit(bench: Bench) -> None:
    left = [Job(f"left{number}", pool_cpu=1) for number in range(4)]
    scheduler.is_left.append(lambda job: job.name.startswith("left"))
    new = Job("new", priority=9, pool_cpu=1)
    assert bench.choose(new, *left) == {job.name for job in left}
    bench.running.difference_update(left[:3])
    assert bench.choose(new) == {"new"}


def test_what_there_is_may_change(bench: Bench) -> None:
    more = {"pool_gpu": 0}
    scheduler.set_limits.append(lambda limits: limits.update(pool_gpu=1 + more["pool_gpu"]))
    jobs = [Job(f"{number}", pool_gpu=1) for number in range(4)]
    assert len(bench.choose(*jobs)) == 1
    more["pool_gpu"] = 1
    left = [job for job in jobs if job not in bench.running]
    assert len(bench.choose(*left)) == 1
    more["pool_gpu"] = -1
    bench.running.clear()
    assert bench.choose(*left) == set()


def test_none_starts_while_the_gate_is_shut(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, looks = [True, False, False, True], list[float]()
    bench.snakemake._schedule_reevalutation = looks.append
    gate = SimpleNamespace(
        is_open=lambda: opened.pop(0), keep_looking=lambda: None, chosen=lambda _: None
    )
    monkeypatch.setattr(scheduler, "gate_of_run", lambda: gate)
    jobs = [Job(f"{number}", pool_cpu=1) for number in range(2)]
    assert bench.choose(jobs[0]) == {"0"}
    assert bench.choose(jobs[1]) == set()
    assert bench.choose(jobs[1]) == set()
    assert len(looks) == 2
    assert bench.choose(jobs[1]) == {"1"}


def asked_by(job: Any, names: Iterable[str]) -> scheduler.Counts:
    asked = job.scheduler_resources
    return tuple((name, asked[name]) for name in names if asked.get(name))


def test_the_choice_is_that_of_snakemakes_own_scheduler() -> None:
    from snakemake.scheduling.greedy import Scheduler as Greedy
    from snakemake.scheduling.greedy import SchedulerSettings

    greedy = Greedy(None, SchedulerSettings(), None)
    draw = random.Random(5)
    for _ in range(200):
        free = {"_cores": draw.randint(1, 12), "_job_count": draw.randint(1, 9), "mem_mb": 50}
        jobs = []
        for number in draw.sample(range(1000), 20):  # no two of a rank
            asked = {"mem_mb": draw.choice([0, 5, 20, 80])}
            job = Job("one", priority=draw.choice([0, 0, 1]), size=number, **asked)
            job.scheduler_resources["_cores"] = draw.randint(1, 4)
            job.input = [File(number)]
            jobs.append(job)
        sizes = {file: file.size for job in jobs for file in job.input}
        theirs = greedy.select_jobs(jobs, jobs, free, sizes)
        jobs.sort(key=lambda job: (job.priority, job.input[0].size), reverse=True)
        names = free.keys() - {"_job_count"}
        ours = fitting(jobs, lambda job, names=names: asked_by(job, names), dict(free))
        assert set(theirs) == set(ours)


class File:
    def __init__(self, size: int) -> None:
        self.size = size

    def is_flagged(self, _flag: str) -> bool:
        return False


REGISTERED = """\
import snakemake.cli
from snakemake_interface_scheduler_plugins.registry import SchedulerPluginRegistry

from fasthep_smk.executors import scheduler

scheduler.register()
registry = SchedulerPluginRegistry()
for name in registry.get_registered_plugins():
    print(name, registry.get_plugin(name).scheduler is scheduler.Scheduler)
snakemake.cli.main(["--scheduler", "ilp", "--scheduler-ilp-solver-path", "bin", "--version"])
"""


def test_it_is_taken_whichever_is_asked_for(tmp_path: Path) -> None:
    """In a process of its own: it is registered for good."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", REGISTERED],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[:2] == ["greedy True", "ilp True"], done.stderr
    assert done.returncode == 0, done.stderr
