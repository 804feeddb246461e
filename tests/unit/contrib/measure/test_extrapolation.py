"""What the rest of a run will take, by what its jobs took so far."""

from __future__ import annotations

import pytest

from fasthep_smk.contrib.measure.extrapolation import Done, Work, forecast

MB = 10**6


def work(**said: object) -> Work:
    given: dict[str, object] = {"rule": "stage_A", "scope": "partition", "pool": "default"}
    found = Work(**{**given, **said})  # type: ignore[arg-type]
    return Work(**{**vars(found), "batch_jobs": found.batch_jobs or len(found.to_do)})


def test_jobs_take_as_long_as_those_that_are_done() -> None:
    done = [Done(9.0), Done(10.0), Done(11.0)]
    found = forecast([work(done=done, to_do=[None] * 300, cpus=2)], at_a_time={"default": 10})
    assert found.core_seconds == pytest.approx(2 * 3000)
    assert found.seconds == pytest.approx(300)


def test_jobs_take_longer_the_more_events_they_have() -> None:
    done = [Done(2.0 + n, memory=(100 + 10 * n) * MB, events=1000 * n) for n in range(1, 7)]
    found = forecast([work(done=done, to_do=[20_000, 0])], at_a_time={})
    assert found.core_seconds == pytest.approx(22 + 2)


def test_workers_of_a_pool_do_their_jobs_in_rounds() -> None:
    done = [Done(10.0, memory=500 * MB)] * 3
    works = [
        work(done=done, to_do=[None] * 95),
        work(rule="stage_B", pool="gpu", done=done, to_do=[None] * 3),
        work(rule="finish", scope="finish", done=[Done(7.0)], to_do=[None]),
    ]
    found = forecast(works, at_a_time={"default": 10, "gpu": 1}, between=1.0, around=5.0)
    default, gpu = found.pools
    assert (default.jobs, default.at_a_time, default.rounds) == (96, 10, 10)
    assert (gpu.jobs, gpu.at_a_time, gpu.rounds) == (3, 1, 3)
    assert default.memory == 600 * MB
    assert default.together == 6000 * MB
    # The pools work side by side, the end of the run follows.
    assert found.seconds == pytest.approx(5 + 95 * 11 / 10 + (7 + 1))


def test_on_one_machine_all_pools_share_its_cores() -> None:
    works = [
        work(done=[Done(10.0)] * 3, to_do=[None] * 8),
        work(rule="stage_B", pool="large", cpus=2, done=[Done(10.0)] * 3, to_do=[None] * 4),
    ]
    found = forecast(works, at_a_time={}, cores=4)
    assert found.seconds == pytest.approx(80 / 4 + 40 / 2)
    assert [one.at_a_time for one in found.pools] == [4, 2]


def test_rules_of_which_no_job_is_done_are_named() -> None:
    works = [work(done=[Done(1.0)], to_do=[None]), work(rule="merge", scope="merge", to_do=[None])]
    found = forecast(works, at_a_time={})
    assert found.unknown == ["merge"]
    assert found.core_seconds == 1


def test_where_all_is_done_nothing_is_left() -> None:
    found = forecast([work(done=[Done(1.0)])], at_a_time={}, around=5.0)
    assert found.seconds == found.core_seconds == found.disk == 0
