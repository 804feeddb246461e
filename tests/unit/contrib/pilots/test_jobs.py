"""How many pilots the jobs of a crew are worth."""

from __future__ import annotations

import pytest

from fasthep_smk.contrib.pilots.jobs import Demand


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def handed(clock: Clock, jobs: int, *, tasks: int = 1) -> Demand:
    demand = Demand(tasks, clock=clock)
    for _ in range(jobs):
        demand.begins()
    return demand


def test_without_jobs_there_is_none(clock: Clock) -> None:
    demand = handed(clock, 1)
    demand.ends(1.0)
    assert demand.pilots == 0


def test_few_jobs_begin_with_one(clock: Clock) -> None:
    assert handed(clock, 4).pilots == 1


def test_many_jobs_begin_with_many_however_short_they_are(clock: Clock) -> None:
    assert handed(clock, 24).pilots == 6
    assert handed(clock, 24, tasks=4).pilots == 2


def test_short_jobs_that_one_pilot_does_soon_need_no_other(clock: Clock) -> None:
    demand = handed(clock, 4)
    for left, pilots in ((3, 1), (2, 1), (1, 1)):
        clock.now += 1
        demand.ends(1.0)
        assert (left, demand.pilots) == (left, pilots)


def test_as_long_as_no_job_ends_they_may_be_long(clock: Clock) -> None:
    """Also since the first pilot waits in the queue."""
    demand = handed(clock, 20)
    clock.now += 6
    assert demand.pilots == 20


def test_long_jobs_after_short_ones_are_seen_to_be_long(clock: Clock) -> None:
    demand = handed(clock, 20)
    for _ in range(10):
        demand.ends(0.2)
    assert demand.pilots == 1
    clock.now += 6
    assert demand.pilots == 10


def test_the_time_of_a_lost_pilot_is_none_of_a_job(clock: Clock) -> None:
    demand = handed(clock, 8)
    clock.now += 5
    demand.ends()
    demand.begins()
    assert demand.pilots == 6  # eight jobs of two seconds at least


def test_a_crew_that_was_idle_does_not_seem_to_be_slow(clock: Clock) -> None:
    demand = handed(clock, 1)
    demand.ends(1.0)
    clock.now += 60
    demand.begins()
    assert demand.pilots == 1
