"""What jobs took, by rule and pool, over time and end to end."""

from __future__ import annotations

from typing import Any

from fasthep_smk.contrib.report import measures
from fasthep_smk.contrib.report.facts import JobFacts

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


def test_how_many_there_are_at_a_time() -> None:
    spans = [(0.0, 1.0), (1.0, 3.0), (2.0, 4.0)]
    assert measures.at_a_time(spans) == [(0, 1), (1, 1), (2, 2), (3, 1), (4, 0), (4, 0)]
    assert measures.at_a_time([]) == []
    many = measures.at_a_time([(float(n), float(n + 1)) for n in range(10_000)])
    assert len(many) < 1002 and many[-1] == (10_000, 0)
