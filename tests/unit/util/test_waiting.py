"""Waiting for something that has to be looked at again and again."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest

from fasthep_smk.util.waiting import until


class Clock:
    """A clock that goes on while one sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def waited(
    seen: list[int], *, seconds: float, enough: Callable[[int], bool] = bool
) -> tuple[int, int, float]:
    """Wait for one number after the other; return the last, how many, and seconds."""
    clock, left = Clock(), iter(seen)
    looks = 0

    def look() -> int:
        nonlocal looks
        looks += 1
        return next(left)

    found = until(look, seconds=seconds, pause=2, enough=enough, clock=clock, sleep=clock.sleep)
    return found, looks, clock.now - 100


@pytest.mark.parametrize(
    ("seen", "seconds", "expected"),
    [
        ([7, 8], 10, (7, 1, 0)),  # what is there already is not waited for
        ([0, 0, 7, 8], 10, (7, 3, 4)),
        ([0, 0, 0, 0], 4, (0, 3, 4)),  # a last look when time is over
        ([0, 0], 0, (0, 1, 0)),
    ],
)
def test_it_ends_with_what_is_looked_for_or_with_time(
    seen: list[int], seconds: float, expected: tuple[int, int, float]
) -> None:
    assert waited(seen, seconds=seconds) == expected


def test_one_may_wait_until_nothing_is_left() -> None:
    assert waited([2, 1, 0], seconds=10, enough=operator.not_) == (0, 3, 4)
