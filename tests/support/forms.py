"""The short form of a family of tests, which ``make test`` runs; ``make nightly`` runs the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

__all__ = ["LONG", "chosen", "in_turn", "some"]

#: One more case of a family.
LONG = pytest.mark.long


def some(cases: Iterable[Any], number: int) -> list[Any]:
    """Return all cases as parameters; all but ``number`` of them, spread evenly, are long.

    What is long already stays so, and does not count.
    """
    cases = list(cases)
    short = [at for at, case in enumerate(cases) if LONG not in getattr(case, "marks", ())]
    kept = {short[at * len(short) // number] for at in range(number)}
    return [
        case
        if at in kept or at not in short
        else _long(*(case if isinstance(case, tuple) else (case,)))
        for at, case in enumerate(cases)
    ]


def chosen(cases: Iterable[Any], short: Callable[..., object]) -> list[Any]:
    """Return all cases as parameters; those whose values ``short`` does not take are long.

    What is long already stays so.
    """
    known = [
        case
        if hasattr(case, "marks")
        else pytest.param(*(case if isinstance(case, tuple) else (case,)))
        for case in cases
    ]
    return [
        case
        if short(*case.values)
        else pytest.param(*case.values, marks=[*case.marks, LONG], id=case.id)
        for case in known
    ]


def in_turn(cases: Iterable[Any], others: Sequence[Any]) -> list[Any]:
    """Return all pairs as parameters; in the short form each case and each other comes once.

    Of the fewer ones, each comes as often as is needed.
    """
    cases = list(cases)
    kept = {(at % len(cases), at % len(others)) for at in range(max(len(cases), len(others)))}
    return [
        (case, other) if (at, number) in kept else _long(case, other)
        for at, case in enumerate(cases)
        for number, other in enumerate(others)
    ]


def _long(*values: Any) -> Any:
    return pytest.param(*values, marks=LONG)
