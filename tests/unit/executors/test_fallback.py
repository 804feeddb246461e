"""Jobs that wait too long for their pool: when the batch system is asked, and what is handed back.

What the batch systems themselves do is in tests/clusters/test_fallback.py.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fasthep_smk import sites
from fasthep_smk.executors import fallback
from fasthep_smk.executors.job_events import Moved
from fasthep_smk.storage.job_settings import MOVED

Answer = Mapping[str, bool | None]


class Batch:
    """A batch system that gives the answers it is told to, and remembers what it was asked."""

    def __init__(self, hold: Answer, withdraw: Answer) -> None:
        self.answers = {"hold": hold, "withdraw": withdraw}
        self.asked: list[tuple[str, list[str]]] = []

    def hold(self, jobs: Iterable[str]) -> Answer:
        return self._answer("hold", [*jobs])

    def withdraw(self, jobs: Iterable[str]) -> Answer:
        return self._answer("withdraw", [*jobs])

    def _answer(self, what: str, jobs: list[str]) -> Answer:
        if jobs:
            self.asked.append((what, jobs))
        return {job: self.answers[what][job] for job in jobs}


class Bench:
    """A queue of a rule whose jobs wait for ``gpu`` for ten seconds at most, and its clock."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "smk").mkdir()
        rules = {"a": [{"pool": "gpu"}, {"pool": "gpu"}, {"pool": "cpu"}], "b": [{"pool": "cpu"}]}
        said = {"system": "slurm", "rules": rules, "fallback_after": {"a": 10}}
        (folder / "smk/requests.json").write_text(json.dumps(said))
        self.now = 0.0
        self.batch = Batch({}, {})
        self.back: list[Any] = []
        self.told: list[Moved] = []
        monkeypatch.setattr(sites, "system", lambda _name: self.batch)
        monkeypatch.setattr(fallback, "_moved", set())
        self.queue = fallback.WaitingJobs(
            self.back.append, self.told.append, folder, lambda: self.now
        )

    def submit(self, job_id: int, rule: str = "a", attempt: int = 1) -> Any:
        log = f"debug/distributed/logs/{rule}/dy/{job_id}.log"
        place = {"part": str(job_id)}
        told = {"jobid": job_id, "attempt": attempt, "log": [log], "wildcards_dict": place}
        job = SimpleNamespace(rule=SimpleNamespace(name=rule), **told)
        info = SimpleNamespace(job=job, external_jobid=job_id)
        self.queue.submitted(info)
        return info

    def look(self, *infos: Any) -> tuple[list[int], list[int]]:
        asked, leaving = self.queue.look([*infos])
        return [one.job.jobid for one in asked], [one.job.jobid for one in leaving]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_nothing_is_asked_before_the_time(bench: Bench) -> None:
    one = bench.submit(1)
    bench.now = 9.9
    assert bench.look(one) == ([1], [])
    assert bench.batch.asked == []


def test_a_job_that_waits_is_handed_back_in_its_fallback(bench: Bench) -> None:
    one, other = bench.submit(1), bench.submit(2, rule="b")
    bench.now = 10
    bench.batch = Batch({"1": True}, {"1": True})
    assert bench.look(one, other) == ([2], [])
    assert bench.back == [one.job]
    assert bench.told == [Moved("a", ["dy/1"], ["1"], 10, "gpu", "cpu")]
    assert fallback.number(one.job) == MOVED + 1
    bench.queue.submitted(SimpleNamespace(job=one.job, external_jobid=3))
    bench.now = 99
    assert bench.look(SimpleNamespace(job=one.job, external_jobid=3)) == ([1], [])
    assert len(bench.batch.asked) == 2


def test_one_that_runs_is_asked_about_once(bench: Bench) -> None:
    one = bench.submit(1)
    bench.now = 10
    bench.batch = Batch({"1": False}, {})
    for _ in range(2):
        assert bench.look(one) == ([1], [])
    assert bench.batch.asked == [("hold", ["1"])]
    assert not bench.back


def test_without_an_answer_a_job_stays_apart_until_there_is_one(bench: Bench) -> None:
    one = bench.submit(1)
    bench.now = 10
    for hold, withdraw in (({"1": None}, {}), ({"1": True}, {"1": None})):
        bench.batch = Batch(hold, withdraw)
        assert bench.look(one) == ([], [1])
    assert not bench.back
    bench.batch = Batch({}, {"1": True})  # it is on hold: that is not asked again
    assert bench.look(one) == ([], [])
    assert bench.back == [one.job]


def test_one_that_somebody_lets_go_stays(bench: Bench) -> None:
    one = bench.submit(1)
    bench.now = 10
    bench.batch = Batch({"1": True}, {"1": False})
    assert bench.look(one) == ([1], [])
    assert not bench.back


@pytest.mark.parametrize(("attempt", "moves"), [(1, True), (2, True), (3, False), (9, False)])
def test_a_later_attempt_waits_as_long_unless_it_is_there(
    bench: Bench, attempt: int, moves: bool
) -> None:
    one = bench.submit(1, attempt=attempt)
    bench.now = 10
    bench.batch = Batch({"1": True}, {"1": True})
    bench.look(one)
    assert bool(bench.back) == moves


def test_the_command_of_a_job_is_made_for_its_fallback(bench: Bench) -> None:
    one = bench.submit(1)
    bench.now = 10
    bench.batch = Batch({"1": True}, {"1": True})
    bench.look(one)
    with fallback.as_sent(one.job):
        assert one.job.attempt == MOVED + 1
    assert one.job.attempt == 1


def test_what_is_changed_in_snakemake_is_there() -> None:
    importlib.import_module("snakemake.cli")  # the modules below it import each other
    rule = importlib.import_module("snakemake.rules").Rule
    taken = [*inspect.signature(rule.expand_resources).parameters]
    assert taken[:4] == ["self", "wildcards", "input", "attempt"]
