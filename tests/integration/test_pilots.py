"""Pilots of a real Parsl, in a batch system of processes on this machine that does as it is told.

What Slurm and HTCondor do is in tests/clusters/test_pilots.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fasthep_smk import sites
from fasthep_smk.config.requests import Attempt, ResourceRequest
from fasthep_smk.contrib.pilots import parsl_executor
from fasthep_smk.contrib.pilots.pilots import Ended, Pilots
from fasthep_smk.sites import Queued
from fasthep_smk.storage.pilots import Crew, Crews
from tests.support.forms import LONG

pytestmark = pytest.mark.integration


class Machine:
    """A batch system whose jobs are processes: they start at once, but in pools that are shut."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.shut: set[str] = set()
        self.answers = self.says_numbers = True
        self.jobs: dict[str, tuple[str, list[str], subprocess.Popen[bytes] | None]] = {}
        self.most = 0

    def submit(self, command: str, name: str, attempt: Attempt, output: Path) -> str:
        if not self.answers:
            raise sites.Unanswered("sbatch: error: Unable to contact slurm controller")
        if attempt.pool in self.refused:
            raise sites.NotSubmitted("invalid account")
        job = str(len(self.jobs) + 1)
        words = ["sh", "-c", f"exec {command} >{output}.log 2>&1"]
        self.jobs[job] = (name, words, None)
        if attempt.pool not in self.shut:
            self.start(job)
        self.most = max(self.most, len(self.alive()))
        if not self.says_numbers:
            raise sites.Unanswered("sbatch: error: Socket timed out on send/recv operation")
        return job

    def start(self, job: str) -> None:
        name, words, _ = self.jobs[job]
        its = {**os.environ, "SLURM_JOB_ID": job}
        self.jobs[job] = (name, words, subprocess.Popen(words, start_new_session=True, env=its))

    def alive(self) -> list[str]:
        return [job for job, (_, _, it) in self.jobs.items() if it is None or it.poll() is None]

    def queued(self, _folder: Path) -> list[Queued] | None:
        if not self.answers:
            return None
        found = [(job, self.jobs[job]) for job in self.alive()]
        return [
            Queued(job, name, "running" if it else "waiting", "") for job, (name, _, it) in found
        ]

    def cancel(self, jobs: Iterable[str]) -> list[str]:
        if not self.answers:
            return ["false"]
        for job in jobs:
            self.kill(job)
        return ["true"]

    def kill(self, job: str) -> None:
        process = self.jobs[job][2]
        if process is None:
            self.jobs[job] = (self.jobs[job][0], [], subprocess.Popen(["true"]))
        elif process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)

    def fate(self, _job: str) -> str:
        return "Slurm: CANCELLED, node std1"


class Bench:
    """Pilots of some pools, and what they say and do."""

    def __init__(self, machine: Machine, folder: Path, **pools: int) -> None:
        crews = {}
        for name, most in pools.items():
            asked = Attempt(name.partition("_")[0], ResourceRequest())
            crews[name] = Crew(name, most, 1, asked)
        self.machine, self.folder = machine, folder
        self.said: list[str] = []
        limited = [one.attempt.pool for one in crews.values()]
        self.pilots = Pilots(
            Crews("slurm", crews, {name: [name] for name in crews}, limited, {}),
            told=lambda _job, _pool: None,
            say=self.said.append,
        )
        self.ends: dict[str, Ended] = {}

    def run(self, pool: str, key: str, command: str, patience: int | None = None) -> None:
        crew = self.pilots.crew_of(pool, 1)
        assert crew is not None
        log, line = self.folder / f"{key}.log", ["sh", "-c", f"echo {key} >>tries; {command}"]

        def ended(how: Ended) -> None:
            assert key not in self.ends
            self.ends[key] = how

        self.pilots.run(crew, key, line, log, ended, patience=patience)

    def tries(self) -> list[str]:
        path = self.folder / "tries"
        return sorted(path.read_text().split()) if path.exists() else []

    def until(self, condition: Callable[[], Any], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, (self.said, self.ends, self.tries())
            time.sleep(0.1)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine()
    monkeypatch.setattr(sites, "system", lambda _name: found)
    monkeypatch.setattr(parsl_executor, "ASK", 1)  # as quick as its answers are
    monkeypatch.chdir(tmp_path)
    return found


@pytest.fixture
def start(machine: Machine, tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def begin(**pools: int) -> Bench:
        made.append(Bench(machine, tmp_path, **pools))
        return made[-1]

    yield begin
    for one in made:
        one.pilots.end()
    for job in machine.alive():
        machine.kill(job)


def test_a_pool_that_is_refused_is_no_matter_of_another(
    machine: Machine, start: Callable[..., Bench]
) -> None:
    """Also of what another one asks for later: its pilots start when there is work."""
    bench = start(good=1, bad=1)
    machine.refused.add("bad")
    for number in range(4):
        bench.run("bad", f"b{number}", "true")
    bench.until(lambda: len(bench.ends) == 4)
    assert {one.status for one in bench.ends.values()} == {None}
    sentence = "pilots cannot be used, each job is a batch job of its own now: invalid account"
    assert bench.said == [f"pool 'bad': {sentence}"]
    assert bench.pilots.crew_of("bad", 1) is None
    bench.run("good", "g", "exit 3")
    bench.until(lambda: "g" in bench.ends)
    assert bench.ends["g"] == Ended(3)


def test_a_batch_system_that_does_not_answer_is_waited_for(
    machine: Machine, start: Callable[..., Bench]
) -> None:
    """Jobs that run go on, and none is given to anybody else."""
    bench = start(pool=2)
    bench.run("pool", "first", "until [ -e go ]; do sleep 0.1; done")
    bench.until(bench.tries)
    machine.answers = False
    bench.run("pool", "second", "true")
    time.sleep(8)
    assert not bench.ends
    assert len(bench.said) == 1
    assert "no pilot can be submitted now; the run tries again" in bench.said[0]
    machine.answers = True
    bench.until(lambda: "second" in bench.ends)
    (bench.folder / "go").touch()
    bench.until(lambda: len(bench.ends) == 2)
    assert bench.tries() == ["first", "second"]
    assert {one.status for one in bench.ends.values()} == {0}


@LONG
def test_a_submission_whose_answer_was_not_heard_counts(
    machine: Machine, start: Callable[..., Bench]
) -> None:
    """It is one of the workers of the pool, and goes with the others."""
    bench = start(pool=1)
    machine.says_numbers = False
    bench.run("pool", "first", "sleep 5")
    bench.until(lambda: machine.jobs)
    machine.says_numbers = True
    bench.run("pool", "second", "true")
    bench.until(lambda: len(bench.ends) == 2)
    assert machine.most == 1
    assert {one.status for one in bench.ends.values()} == {0}
    bench.pilots.end()
    bench.until(lambda: not machine.alive())


def test_jobs_go_elsewhere_when_their_pilots_are_gone(
    machine: Machine, start: Callable[..., Bench]
) -> None:
    """And not before, as long as nobody knows what has become of them."""
    bench = start(pool=1)
    bench.run("pool", "job", "sleep 1000")
    bench.until(bench.tries)
    machine.answers = False
    interchange = bench.pilots._executors["pool"].interchange_proc
    interchange.kill()
    time.sleep(5)
    assert not bench.ends
    machine.answers = True
    bench.until(lambda: bench.ends)
    assert not machine.alive()
    assert bench.ends["job"] == Ended(None)
    assert "Parsl's interchange has ended, signal 9 (killed)" in bench.said[0]


def test_a_pilot_that_is_lost_is_told_and_its_job_runs_again(
    machine: Machine, start: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsl_executor, "LOST", 8)
    monkeypatch.setattr(parsl_executor, "WORD", 2)
    bench = start(pool=1)
    bench.run("pool", "job", "[ -e go ] || sleep 1000")
    bench.until(bench.tries)
    (bench.folder / "go").touch()
    machine.kill("1")
    bench.until(lambda: bench.ends)
    assert bench.ends["job"] == Ended(0)
    assert bench.tries() == ["job", "job"]
    assert bench.said == [
        "pool 'pool': pilot 1 was lost: Slurm: CANCELLED, node std1; its jobs run again"
    ]


@LONG
def test_pilots_that_work_are_kept_where_others_are_refused(
    machine: Machine, start: Callable[..., Bench]
) -> None:
    bench = start(pool=4)
    bench.run("pool", "first", "sleep 1")
    bench.until(bench.tries)
    machine.refused.add("pool")
    for number in range(4):
        bench.run("pool", f"more{number}", "sleep 1")
    bench.until(lambda: len(bench.ends) == 5)
    assert {one.status for one in bench.ends.values()} == {0}
    assert not bench.said


def test_what_goes_wrong_in_a_pilot_is_a_failure_of_that_job(start: Callable[..., Bench]) -> None:
    bench = start(pool=1)
    (bench.folder / "one.log").mkdir()  # what it prints can go nowhere
    bench.run("pool", "one", "true")
    bench.run("pool", "two", "true")
    bench.until(lambda: len(bench.ends) == 2)
    assert bench.ends["one"].status == 1
    assert "IsADirectoryError" in bench.ends["one"].why
    assert bench.ends["two"] == Ended(0)


@LONG
def test_crews_of_a_pool_share_its_workers(machine: Machine, start: Callable[..., Bench]) -> None:
    """One pilot at a time, of this or of that crew: one without work makes room."""
    bench = start(pool_a=1, pool_b=1)
    bench.run("pool_a", "a", "true")
    bench.run("pool_b", "b", "true")
    bench.until(lambda: len(bench.ends) == 2)
    assert {one.status for one in bench.ends.values()} == {0}
    assert machine.most == 1


def test_a_pool_that_does_not_come_is_left(machine: Machine, start: Callable[..., Bench]) -> None:
    """And not before its pilots are known to be gone."""
    bench = start(pool=1, other=1)
    machine.shut.add("pool")
    bench.run("pool", "job", "true", patience=1)
    bench.until(lambda: machine.jobs)
    cancel, silence = machine.cancel, [3.0]

    def silent(jobs: Iterable[str]) -> list[str]:
        if silence:  # it falls silent when the first one is to go
            machine.answers = False
            threading.Timer(silence.pop(), lambda: setattr(machine, "answers", True)).start()
        return cancel(jobs)

    machine.cancel = silent  # type: ignore[method-assign]
    bench.until(lambda: bench.ends)
    assert bench.ends["job"] == Ended(None, late=True)
    assert bench.said == ["pool 'pool': none of its pilots has started"]
    assert not machine.alive()
    assert not bench.tries()


@LONG
def test_a_pool_that_came_once_may_not_come_again(
    machine: Machine, start: Callable[..., Bench]
) -> None:
    bench = start(pool=1)
    bench.run("pool", "first", "true", patience=2)
    bench.until(lambda: "first" in bench.ends)
    machine.shut.add("pool")
    machine.kill(machine.alive()[0])
    bench.run("pool", "second", "true", patience=2)
    bench.until(lambda: "second" in bench.ends, 90)
    assert bench.ends["second"] == Ended(None, late=True)
    assert bench.tries() == ["first"]


def test_a_pool_that_comes_while_it_is_left_is_kept(
    machine: Machine, start: Callable[..., Bench]
) -> None:
    """Nobody knows of a pilot whose submission takes longer than jobs may wait, and it runs."""
    bench = start(pool=1)
    submit = machine.submit

    def slow(*arguments: Any) -> str:
        time.sleep(5)
        return submit(*arguments)

    machine.submit = slow  # type: ignore[method-assign]
    bench.run("pool", "job", "true", patience=1)
    bench.until(lambda: bench.ends)
    assert bench.ends["job"] == Ended(0)
    assert bench.tries() == ["job"]
    assert not bench.said
