"""What jobs took, by rule and pool, over time and end to end."""

from __future__ import annotations

from typing import Any

import pytest

from fasthep_smk.contrib.report import measures, tables
from fasthep_smk.contrib.report.facts import JobFacts
from fasthep_smk.storage.queue import Waited

GB = 10**9


def job(key: str = "a", **told: Any) -> JobFacts:
    given: dict[str, Any] = {
        "rule": "r",
        "key": key,
        "state": "done",
        "pool": "default",
        "dataset": "data",
        "events": None,
        "reads": (),
        "folder": f"smk/work/r/{key}",
        "host": "here",
        "is_new": True,
    }
    return JobFacts(**{**given, **told})


def test_a_row_tells_what_the_jobs_of_a_rule_took() -> None:
    jobs = [
        job("a", started=10, ended=12, cpu=1, memory=5, read=100, events=50, submitted=4.0),
        job("b", started=10, ended=16, cpu=3, memory=7, read=200, events=70, submitted=2.0),
        job("c", started=10, ended=11, cpu=1, memory=6, threads=2, retries=1, is_new=False),
    ]
    (row,) = measures.rules(jobs)
    assert (row.jobs, row.earlier, row.retries) == (3, 1, 1)
    assert (row.least, row.median, row.most) == (1, 2, 6)
    assert row.cpu == 5 / 10  # the third had two cpus
    assert (row.memory, row.read, row.written) == (7, 300, None)
    assert row.wait == 7
    assert row.speed == 120 / 8  # of those that have events


def test_jobs_of_one_rule_in_two_pools_are_two_rows() -> None:
    rows = measures.rules([job("a"), job("b", pool="gpu")])
    assert [(row.rule, row.pool) for row in rows] == [("r", "default"), ("r", "gpu")]


def test_a_bundle_has_waited_once() -> None:
    bundle = [job(key, submitted=1.0, started=start) for key, start in (("a", 5), ("b", 25))]
    assert measures.queue_waits(bundle) == [4]


@pytest.mark.parametrize(
    ("told", "advised"),
    [
        ({}, 950_000_000),  # as 'fasthep-smk sizes' proposes
        ({"memory": 123_456_789}, 190_000_000),
        ({"memory": 1_700_000_000}, None),  # it would hardly save anything
        ({"asked_memory": None}, None),
        ({"for_memory": True}, None),
    ],
)
def test_less_memory_is_advised_where_that_is_safe(told: dict[str, Any], advised: int) -> None:
    given: dict[str, Any] = {"memory": 800_000_000, "asked_memory": 2 * GB}
    found = measures.requested([job(key, **{**given, **told}) for key in "abc"])
    assert [one.advised for one in found] == ([advised] if told.get("asked_memory", 1) else [])
    for one in found:
        assert one.saved == (None if advised is None else 1 - advised / (2 * GB))


def test_nothing_is_advised_after_two_jobs_or_where_jobs_asked_for_different_amounts() -> None:
    two = [job(key, memory=GB, asked_memory=4 * GB) for key in "ab"]
    assert [one.advised for one in measures.requested(two)] == [None]
    more = [*two, job("c", memory=GB, asked_memory=8 * GB)]
    assert [one.advised for one in measures.requested(more)] == [None]


def test_less_time_is_advised_too() -> None:
    jobs = [job(key, started=0, ended=100, asked_time=3600) for key in "abc"]
    (one,) = measures.requested(jobs)
    assert (one.amount, one.used, one.advised) == ("time", 100, 240)


def test_the_advice_is_that_of_the_rule_which_needs_most() -> None:
    small = [job(key, memory=10**8, asked_memory=GB) for key in "abc"]
    large = [job(key, rule="s", memory=4 * 10**8, asked_memory=GB) for key in "abc"]
    (one,) = measures.requested([*small, *large])
    assert (one.rule, one.advised) == ("s", (alone := measures.requested(large))[0].advised)
    assert alone[0].advised is not None


def test_the_critical_path_goes_back_over_what_ended_last() -> None:
    jobs = [
        job("slow", started=1, ended=9, waited_from=0.0),
        job("quick", started=0, ended=2),
        job("end", started=12, ended=13, reads=("smk/work/r/quick", "smk/work/r/slow")),
    ]
    path = measures.critical_path(jobs)
    assert [(step.key, step.waited) for step in path] == [("slow", 1), ("end", 3)]
    assert measures.critical_path([]) == []


def test_a_row_of_the_timeline_is_for_one_job_at_a_time() -> None:
    jobs = [
        job("a", started=0, ended=10, waited_from=0.0),
        job("b", started=5, ended=8, waited_from=1.0),
        job("c", started=9, ended=12, waited_from=2.0),
        job("d", started=9, ended=12, host="there"),
    ]
    names, rows, grey = measures.lanes(jobs)
    assert names == ["default @ here", "default @ here", "default @ there"]
    assert rows == [0, 1, 1, 2]
    assert grey == [0, 1, 8, 9]  # "c": its row was taken until then


def test_how_many_ran_and_waited_at_a_time() -> None:
    jobs = [
        job("a", started=1, ended=3, waited_from=0.0),
        job("b", started=2, ended=4, waited_from=0.0, pool="gpu"),
    ]
    times, waiting, running = measures.concurrency(jobs)
    assert times == [0, 1, 2, 3, 4]
    assert waiting == [2, 1, 0, 0, 0]
    assert running == {"default": [0, 1, 1, 0, 0], "gpu": [0, 0, 1, 1, 0]}


def test_pools_are_told_against_their_limits() -> None:
    jobs = [
        job("a", started=0, ended=10, waited_from=0.0),
        job("b", started=0, ended=6, waited_from=0.0),
        job("c", started=6, ended=10, waited_from=2.0),
        job("d", pool="gpu", started=2, ended=4, threads=3),
    ]
    waited = [Waited(1, "default", "Resources", 3), Waited(5, "default", "Resources", 7)]
    default, gpu, cores = measures.pools(jobs, {"default": 2}, 4, waited)
    assert (default.limit, default.most, default.full) == (2, 2, 1.0)
    assert default.mean == 20 / 10  # 10, 6 and 4 s of jobs in 10 s
    assert default.waiting == 4 / 10
    assert default.reasons == {"Resources": 7}
    assert (gpu.limit, gpu.full, gpu.mean) == (None, None, 1.0)
    assert (cores.unit, cores.limit, cores.most) == ("cores", 4, 5)
    assert cores.mean == (20 + 6) / 10
    assert cores.full == 2 / 10


def test_a_pool_of_which_no_job_has_ended_says_why_they_wait() -> None:
    (row,) = measures.pools([], {"gpu": 2}, None, [Waited(1, "gpu", "Priority", 4)])
    assert (row.pool, row.most, row.reasons) == ("gpu", 0, {"Priority": 4})
    assert tables._limit_advice(row) == "–"


@pytest.mark.parametrize(
    ("seconds", "advised"), [(10, 2), (0.5, None)], ids=["long", "short: its start counts"]
)
def test_fewer_cores_are_advised_where_these_were_idle(seconds: float, advised: int | None) -> None:
    jobs = [
        job(key, asked_cpus=4, threads=4, cpu=1.6 * seconds, started=0, ended=seconds)
        for key in "abc"
    ]
    (found,) = measures.requested([*jobs, job("one", asked_cpus=1, started=0, ended=9, cpu=99)])
    assert (found.amount, found.jobs, found.asked, found.advised) == ("cores", 3, 4, advised)
