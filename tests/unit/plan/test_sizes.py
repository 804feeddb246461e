"""The sizing rule: what jobs ask for, from what the jobs of their rule have taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fasthep_smk.plan.sizes import Sample, first_request, next_request

GB = 10**9


def taken(*amounts: float) -> list[Sample]:
    return [Sample(amount) for amount in amounts]


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
    history = [Sample(1 * GB + 1000 * entries, entries) for entries in (1e6, 2e6, 3e6, 4e6, 5e6)]
    # All is explained by the entries: the floor is what is left as a margin.
    assert first_request(history, size=8e6) == pytest.approx(9 * GB + 64e6, abs=2)
    # Never less than the least that any job took.
    assert first_request(history, size=0) == 2 * GB
    # Of a job whose entries are not known, and by four jobs, no line is drawn.
    assert first_request(history) == 7 * GB
    assert first_request(history[:4], size=8e6) == 6 * GB


def test_a_line_that_explains_little_is_not_drawn() -> None:
    amounts = (1 * GB, 3 * GB, 1 * GB, 3 * GB, 3 * GB)
    history = [Sample(amount, entries) for entries, amount in enumerate(amounts)]
    assert first_request(history, size=100) == first_request(taken(*amounts))


def test_a_time_has_twice_the_margin() -> None:
    assert first_request(taken(3600), amount="walltime") == 3600 + 2 * 1350


def test_what_lacked_memory_asks_for_twice_as_much_or_half_more_than_any_other() -> None:
    assert next_request(2 * GB, taken(1 * GB)) == 4 * GB
    assert next_request(2 * GB, taken(6 * GB)) == 9 * GB


def test_what_lacked_all_that_a_worker_has_is_not_tried_again() -> None:
    assert next_request(6 * GB, taken(1 * GB), most=8 * GB) == 8 * GB
    assert next_request(8 * GB, taken(1 * GB), most=8 * GB) is None


AMOUNTS = st.floats(1e6, 1e12)
SAMPLES = st.builds(Sample, AMOUNTS, st.none() | st.floats(0, 1e9))


@given(st.lists(SAMPLES, min_size=1, max_size=12), st.none() | st.floats(0, 1e9))
def test_a_request_is_never_below_what_every_job_took(
    history: list[Sample], size: float | None
) -> None:
    request = first_request(history, size=size)
    assert request is not None
    assert request >= min(one.amount for one in history)


@given(st.integers(1, 10**12), st.lists(SAMPLES, max_size=5), st.integers(1, 10**13))
def test_tries_end_soon_at_what_the_largest_worker_has(
    asked: int, history: list[Sample], most: int
) -> None:
    tries, request = 0, next_request(asked, history, most=most)
    while request is not None:
        assert asked < request <= most
        asked, tries = request, tries + 1
        request = next_request(asked, history, most=most)
    assert tries <= 45  # each twice the one before
