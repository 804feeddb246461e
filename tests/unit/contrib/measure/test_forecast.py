"""What the rest of a run will take, by what its jobs took so far."""

from __future__ import annotations

import pytest

from fasthep_smk.contrib.measure.forecast import OfRule, expected, total
from fasthep_smk.plan.sizes import MeasuredJob


def of_rule(**said: object) -> OfRule:
    given: dict[str, object] = {
        "rule": "stage_A", "scope": "partition", "pool": "default", "cpus": 1, "done": 3,
        "to_do": 1, "disk": 0.0, **said,
    }  # fmt: skip
    return OfRule(**{"batch_jobs": given["to_do"], **given})  # type: ignore[arg-type]


def test_jobs_take_as_long_as_those_that_are_done() -> None:
    assert expected([MeasuredJob(9.0), MeasuredJob(10.0), MeasuredJob(11.0)], [None] * 300) == 3000
    assert expected([], [None]) is None
    found = total([of_rule(to_do=300, seconds=3000.0, cpus=2)], at_a_time={"default": 10})
    assert found.core_seconds == 2 * 3000
    assert found.seconds == 300


def test_jobs_take_longer_the_more_events_they_have() -> None:
    done = [MeasuredJob(2.0 + n, 1000 * n) for n in range(1, 7)]
    assert expected(done, [20_000, 0]) == pytest.approx(22 + 2)


def test_workers_of_a_pool_do_their_jobs_in_rounds() -> None:
    rules = [
        of_rule(to_do=95, seconds=950.0),
        of_rule(rule="stage_B", pool="gpu", to_do=3, seconds=30.0),
        of_rule(rule="finish", scope="finish", seconds=7.0),
    ]
    found = total(rules, at_a_time={"default": 10, "gpu": 1}, between=1.0, around=5.0)
    assert found.jobs == 99
    # The pools work side by side, the end of the run follows.
    assert found.seconds == pytest.approx(5 + 95 * 11 / 10 + (7 + 1))


def test_on_one_machine_all_pools_share_its_cores() -> None:
    rules = [
        of_rule(to_do=8, seconds=80.0),
        of_rule(rule="stage_B", pool="large", cpus=2, to_do=4, seconds=40.0),
    ]
    assert total(rules, at_a_time={}, cores=4).seconds == pytest.approx(80 / 4 + 40 / 2)


def test_rules_of_which_no_job_is_done_are_named() -> None:
    rules = [of_rule(seconds=1.0), of_rule(rule="merge", scope="merge", seconds=None, disk=None)]
    found = total(rules, at_a_time={})
    assert found.unknown == ["merge"]
    assert found.core_seconds == 1


def test_where_all_is_done_nothing_is_left() -> None:
    found = total([of_rule(to_do=0, seconds=0.0)], at_a_time={}, around=5.0)
    assert found.seconds == found.core_seconds == found.disk == 0
