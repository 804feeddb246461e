"""The sizing rule: what jobs ask for, from what the jobs of their rule have taken."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fasthep_smk.plan.amounts import grown
from fasthep_smk.plan.sizes import MeasuredJob, first_request

GB = 10**9


def taken(*amounts: float) -> list[MeasuredJob]:
    return [MeasuredJob(amount) for amount in amounts]


def test_nothing_is_known_before_the_first_job_is_done() -> None:
    assert first_request([]) is None


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ([2 * GB], 2.75 * GB),  # one job: three eighths on top
        ([2 * GB] * 3, 2.375 * GB),  # less of it, the more jobs took the same
        ([2 * GB] * 14, 2.1 * GB),
        ([1 * GB, 3 * GB], 5 * GB),  # far apart: the next may be as far again
        ([1 * GB, 2 * GB, 3 * GB], 4 * GB),
        ([100e6], 164e6),  # never less than 64 MB: a peak between two looks
    ],
)
def test_the_margin_falls_as_jobs_are_done_and_grows_with_their_spread(
    amounts: list[float], expected: float
) -> None:
    assert first_request(taken(*amounts)) == expected


def test_jobs_that_take_more_the_more_they_read_are_sized_by_what_they_read() -> None:
    history = [
        MeasuredJob(1 * GB + 1000 * entries, entries) for entries in (1e6, 2e6, 3e6, 4e6, 5e6)
    ]
    # All is explained by the entries: the floor is what is left as a margin.
    assert first_request(history, size=8e6) == pytest.approx(9 * GB + 64e6, abs=2)
    # Never less than the least that any job took.
    assert first_request(history, size=0) == 2 * GB
    # Of a job whose entries are not known, and by four jobs, no line is drawn.
    assert first_request(history) == 7 * GB
    assert first_request(history[:4], size=8e6) == 6 * GB


def test_a_line_that_explains_little_is_not_drawn() -> None:
    amounts = (1 * GB, 3 * GB, 1 * GB, 3 * GB, 3 * GB)
    history = [MeasuredJob(amount, entries) for entries, amount in enumerate(amounts)]
    assert first_request(history, size=100) == first_request(taken(*amounts))


def test_a_time_has_twice_the_margin() -> None:
    assert first_request(taken(3600), amount="walltime") == 3600 + 2 * 1350


@dataclass(frozen=True)
class Replay:
    """What the jobs of a run asked for in vain, to what they used, and how many ran twice."""

    waste: float
    again: int


def replay(jobs: Sequence[MeasuredJob], amount: str = "memory", at_a_time: int = 16) -> Replay:
    """Size each job by those that had ended when it was sent; one that fails has lost all it had.

    The first ones, of which nothing was known, do not count.
    """
    held = used = 0.0
    again = 0
    for number in range(at_a_time + 3, len(jobs)):
        job, history = jobs[number], jobs[: number - at_a_time]
        asked = first_request(history, size=job.size, amount=amount)
        assert asked is not None
        again += asked < job.amount
        while asked < job.amount:
            held += asked
            asked = grown(asked, max(one.amount for one in history))
        held, used = held + asked, used + job.amount
    return Replay(held / used - 1, again)


def partitions(unlike: Sequence[int] = (), more: float = 0.9 * GB) -> list[MeasuredJob]:
    """Two hundred partitions of 40 to 269 events, 4 MB each and 100 MB; some take ``more``."""
    events = [40 + 230 * number // 200 for number in range(200)]
    random.Random(0).shuffle(events)
    return [
        MeasuredJob(0.1 * GB + 4e6 * size + more * (number in unlike), size)
        for number, size in enumerate(events)
    ]


@pytest.mark.parametrize("unlike", [(), (20,), (30, 110), (20, 70, 140)])
def test_a_few_jobs_unlike_the_others_do_not_decide_what_all_ask_for(unlike: list[int]) -> None:
    found = replay(partitions(unlike))
    assert found.waste < 0.2
    assert found.again <= replay(partitions()).again + len(unlike)
    without_sizes = [MeasuredJob(one.amount) for one in partitions(unlike)]
    assert replay(without_sizes).again <= len(unlike) + 4


@pytest.mark.parametrize(("number", "at"), [(5, 4), (8, 0), (15, 14), (19, 7)])
def test_one_of_a_few_jobs_that_took_far_more_does_not_let_all_ask_for_it(
    number: int, at: int
) -> None:
    jobs = [MeasuredJob((0.2 + 0.3 * one / number) * GB) for one in range(number)]
    usual = first_request(jobs)
    jobs[at] = MeasuredJob(3.4 * GB)
    assert first_request(jobs) == pytest.approx(usual, rel=0.25)
    # Two of them are no accident, and of three jobs nobody knows what is usual.
    assert first_request([*jobs, MeasuredJob(3.3 * GB)]) > 3.4 * GB
    assert (
        first_request([MeasuredJob(0.2 * GB), MeasuredJob(0.3 * GB), MeasuredJob(3.4 * GB)])
        > 3.4 * GB
    )


def test_memory_of_two_kinds_is_not_taken_for_a_few_odd_jobs() -> None:
    chance = random.Random(1)
    jobs = [MeasuredJob(chance.choice((0.3, 1.2)) * GB, chance.random()) for _ in range(200)]
    found = replay(jobs)
    assert found.again == 0
    assert found.waste < 0.9  # all ask for the larger: 1.2 GB, of 0.75 GB that they use


def test_where_many_take_far_more_than_most_few_jobs_run_twice() -> None:
    chance = random.Random(2)
    jobs = [MeasuredJob(0.5 * GB * chance.paretovariate(2.5)) for _ in range(400)]
    everyone_the_most = (
        max(one.amount for one in jobs) * len(jobs) / sum(one.amount for one in jobs)
    )
    found = replay(jobs)
    assert found.again <= 0.06 * len(jobs)
    assert found.waste < 0.5 * everyone_the_most


def test_one_job_that_hung_does_not_let_all_ask_for_its_time() -> None:
    chance = random.Random(3)
    times = [MeasuredJob(chance.uniform(540, 660)) for _ in range(200)]
    times[30] = MeasuredJob(36_000)
    request = first_request(times, amount="walltime")
    assert request is not None
    assert 660 < request < 1000
    found = replay(times, "walltime")
    assert found.again == 1


def test_time_that_is_not_used_costs_less_than_a_job_that_is_killed() -> None:
    """Memory: two of forty are tried again. Time: all of what they did would be lost."""
    amounts = taken(*[1000.0] * 38, 1500.0, 1500.0)
    times = first_request(amounts, amount="walltime")
    assert times is not None
    assert times > 1500
    memory = first_request([MeasuredJob(one.amount * 1e6) for one in amounts])
    assert memory is not None
    assert memory < 1500 * 1e6


AMOUNTS = st.floats(1e6, 1e12)
SAMPLES = st.builds(MeasuredJob, AMOUNTS, st.none() | st.floats(0, 1e9))


@given(st.lists(SAMPLES, min_size=1, max_size=12), st.none() | st.floats(0, 1e9))
def test_a_request_is_never_below_what_every_job_took(
    history: list[MeasuredJob], size: float | None
) -> None:
    request = first_request(history, size=size)
    assert request is not None
    assert request >= min(one.amount for one in history)
