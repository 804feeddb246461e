"""What a job asks for at an attempt: a table of cases."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fasthep_smk
from fasthep_smk.config.requests import GROWS_TO, Attempt, ResourceRequest
from fasthep_smk.plan.amounts import Known, Past, amounts, grown, planned

GB, HOUR = 10**9, 3600
BOTH = ("memory", "walltime")


def attempt(
    memory: float | None = None,
    hours: float | None = None,
    *,
    most: tuple[float | None, float | None] = (None, None),
    pool: str = "p",
    **more: Any,
) -> Attempt:
    """What is said of an attempt, in GB and hours, and up to how much it may grow."""
    request = ResourceRequest(
        memory=None if memory is None else int(memory * GB),
        walltime=None if hours is None else int(hours * HOUR),
    )
    limits = {"memory": most[0] and int(most[0] * GB), "walltime": most[1] and int(most[1] * HOUR)}
    known = {name: limit for name, limit in limits.items() if limit is not None}
    return Attempt(pool, request, most=known, **more)


def shown(one: Attempt) -> tuple[float | None, float | None]:
    """Return memory and time of an attempt in GB and hours."""
    memory, walltime = one.request.memory, one.request.walltime
    return memory and memory / GB, walltime and walltime / HOUR


#: A pool's workers; a stage that asks for less than that; a file of sizes in a pool; nothing said.
WORKER = attempt(4, 2, most=(4, 2))
STAGE = attempt(1, 2, most=(4, 2))
FILE = attempt(1, 0.5, most=(4, 2))
NOTHING = attempt()
#: The same if other jobs decide: in a pool that says what its workers have, and in one that does
#: not, up to the largest node.
MEASURED = attempt(4, 2, most=(4, 2), measured=BOTH)
GUESSED = attempt(2, most=(7, None), measured=("memory",))
LAST_GUESSED = attempt(8, most=(7, None), measured=("memory",))
NO_NODE = attempt(2, measured=("memory",))
LAST_NO_NODE = attempt(8, measured=("memory",))
BIG = attempt(64, 8, most=(64, 8), pool="big")
SMALL = attempt(2, 1, most=(2, 1), pool="small")


@pytest.mark.parametrize(
    ("stated", "asked"),
    [
        ([WORKER], [(4, 2)]),
        ([WORKER] * 3, [(4, 2)] * 3),
        ([NOTHING] * 2, [(None, None)] * 2),
        ([STAGE] * 4, [(1, 2), (2, 2), (4, 2), (4, 2)]),
        ([attempt(1, most=(4, None), growth=3)] * 3, [(1, None), (3, None), (4, None)]),
        ([attempt(1, most=(4, None), growth=1)] * 3, [(1, None)] * 3),
        ([attempt(1, most=(None, None))] * 3, [(1, None), (2, None), (4, None)]),
        # Nobody knows which of both it will lack: all the time that there is.
        ([FILE] * 3, [(1, 0.5), (2, 2), (4, 2)]),
        ([attempt(1, 0.5, most=(4, None))] * 2, [(1, 0.5), (2, None)]),

        ([GUESSED, GUESSED, LAST_GUESSED], [(2, None), (4, None), (7, None)]),
        ([NO_NODE, NO_NODE, LAST_NO_NODE], [(2, None), (4, None), (8, None)]),
        ([NO_NODE] * 4 + [LAST_NO_NODE], [(n, None) for n in (2, 4, 8, 16, 32)]),
        ([STAGE, STAGE, BIG], [(1, 2), (2, 2), (64, 8)]),
        ([attempt(1, most=(4, None)), attempt(1, most=(16, None), pool="b", growth=3)],
         [(1, None), (3, None)]),
        ([NOTHING, attempt(1, 0.5, pool="b")], [(None, None), (1, 0.5)]),
        ([BIG, SMALL], [(64, 8), (2, 1)]),
        # A pool that says nothing is left to its batch system; where it says no limit, to its word.
        ([STAGE, attempt(pool="any")], [(1, 2), (None, None)]),
        ([STAGE, attempt(1, pool="any")], [(1, 2), (1, None)]),
        ([attempt(1, 0.5, most=(4, None))] * 3, [(1, 0.5), (2, None), (4, None)]),
    ],
)  # fmt: skip
def test_what_a_translation_plans(stated: list[Attempt], asked: list[Any]) -> None:
    """A plain Snakemake asks for that at each attempt, whatever a job died of."""
    assert [shown(one) for one in planned(stated)] == asked


def known(memory: float, hours: float) -> Any:
    """Three jobs in pool ``p``, and what another one should ask for."""
    first = {"memory": int(memory * GB), "walltime": int(hours * HOUR)}
    return lambda pool, name: (
        Known(first[name], 0.5 * first[name], "3 jobs") if pool == "p" else Known()
    )


@pytest.mark.parametrize(
    ("stated", "asked"),
    [
        ([MEASURED], [(3, 1)]),
        ([MEASURED] * 2, [(3, 1), (4, 2)]),
        ([MEASURED] * 4, [(3, 1), (4, 2), (4, 2), (4, 2)]),
        ([WORKER] * 2, [(4, 2)] * 2),  # what others took is not asked for
        ([attempt(4, 2, most=(4, 2), measured=("memory",))] * 2, [(3, 2), (4, 2)]),
        ([attempt(2, 2, most=(2, 2), measured=BOTH)] * 2, [(2, 1), (2, 2)]),
        ([GUESSED, GUESSED, LAST_GUESSED], [(3, None), (6, None), (7, None)]),
        ([GUESSED, LAST_NO_NODE], [(3, None), (8, None)]),
        ([MEASURED, BIG], [(3, 1), (64, 8)]),
    ],
)
def test_what_a_translation_plans_by_earlier_jobs(stated: list[Attempt], asked: list[Any]) -> None:
    assert [shown(one) for one in planned(stated, known(3, 1))] == asked


def died(had: Attempt, *kinds: str) -> Past:
    return Past(had, kinds)


#: What an attempt had that was measured, and failed.
HAD = attempt(1, 0.5)
HAD_MORE = attempt(3, 1)


@pytest.mark.parametrize(
    ("stated", "number", "past", "asked"),
    [
        # What is fixed grows by what it has lacked, and by nothing else.
        ([STAGE] * 3, 2, died(STAGE, "memory"), (2, 2)),
        ([STAGE] * 3, 2, died(STAGE, "error"), (1, 2)),
        ([STAGE] * 3, 2, died(STAGE, "time"), (1, 2)),
        ([STAGE] * 3, 2, died(STAGE, "killed"), (1, 2)),
        ([STAGE] * 3, 2, died(STAGE, "disk"), (1, 2)),
        ([STAGE] * 3, 3, died(STAGE, "killed"), (2, 2)),
        ([STAGE] * 3, 3, died(attempt(2, 2), "memory"), (4, 2)),
        ([STAGE] * 3, 3, died(attempt(2, 2), "error"), (2, 2)),
        ([STAGE] * 3, 2, died(STAGE, "error", "memory"), (2, 2)),  # those of a bundle
        ([STAGE] * 3, 7, died(attempt(4, 2), "memory"), (4, 2)),
        ([WORKER] * 2, 2, died(WORKER, "memory"), (4, 2)),
        ([NOTHING] * 2, 2, died(NOTHING, "memory"), (None, None)),
        ([FILE] * 3, 2, died(FILE, "time"), (1, 1)),
        ([FILE] * 3, 2, died(FILE, "memory"), (2, 0.5)),
        ([FILE] * 3, 2, died(FILE, "error"), (1, 0.5)),
        ([attempt(1, most=(4, None), growth=1.5)] * 2, 2, died(HAD, "memory"), (1.5, 0.5)),
        # What is measured, too; by others, if these took more.
        ([MEASURED] * 3, 1, None, (3, 1)),
        ([MEASURED] * 3, 2, died(HAD, "memory"), (3, 0.5)),
        ([MEASURED] * 3, 2, died(attempt(1.9, 1), "memory"), (3.8, 1)),
        ([MEASURED] * 3, 2, died(HAD_MORE, "memory"), (4, 1)),
        ([MEASURED] * 3, 2, died(HAD_MORE, "error"), (3, 1)),
        ([MEASURED] * 3, 2, died(HAD, "error"), (1, 0.5)),
        ([MEASURED] * 3, 2, died(HAD, "time"), (1, 1)),
        ([MEASURED] * 3, 2, died(HAD, "killed"), (1, 0.5)),
        # The last attempt lacks nothing that it could have.
        ([MEASURED] * 3, 3, died(HAD, "memory"), (4, 0.5)),
        ([MEASURED] * 3, 3, died(HAD, "time"), (1, 2)),
        ([MEASURED] * 3, 3, died(HAD, "killed"), (4, 2)),
        ([MEASURED] * 3, 3, died(HAD, "error"), (1, 0.5)),
        ([MEASURED] * 3, 9, died(HAD, "memory"), (4, 0.5)),
        # Where nobody says what a worker has.
        ([GUESSED, GUESSED, LAST_GUESSED], 2, died(attempt(1), "memory"), (3, None)),
        ([GUESSED, GUESSED, LAST_GUESSED], 2, died(attempt(5), "memory"), (7, None)),
        ([GUESSED, GUESSED, LAST_GUESSED], 3, died(attempt(1), "memory"), (7, None)),
        ([NO_NODE, NO_NODE, LAST_NO_NODE], 2, died(attempt(5), "memory"), (10, None)),
        ([NO_NODE, NO_NODE, LAST_NO_NODE], 3, died(attempt(1), "memory"), (8, None)),
        ([NO_NODE, NO_NODE, LAST_NO_NODE], 3, died(attempt(5), "memory"), (10, None)),
        ([NO_NODE, NO_NODE, LAST_NO_NODE], 3, died(attempt(1), "error"), (1, None)),
        # In another pool, it is asked for afresh.
        ([STAGE, BIG], 2, died(STAGE, "error"), (64, 8)),
        ([STAGE, BIG], 2, died(STAGE, "memory"), (64, 8)),
        ([MEASURED, BIG], 9, None, (64, 8)),  # it has not got its pool
        ([BIG, SMALL], 2, died(BIG, "memory"), (2, 1)),
        ([STAGE, attempt(1, pool="any")], 2, died(attempt(2, 2), "memory"), (4, None)),
        ([BIG, attempt(1, 1, most=(99, 9))], 2, died(BIG, "memory"), (99, 1)),
        ([BIG, MEASURED], 2, died(BIG, "error"), (3, 1)),
        ([SMALL, MEASURED], 2, died(SMALL, "memory"), (4, 1)),
        ([NOTHING, MEASURED], 2, died(attempt(pool="none"), "memory"), (3, 1)),
    ],
)
def test_what_a_job_asks_for_in_a_run(
    stated: list[Attempt], number: int, past: Past | None, asked: Any
) -> None:
    """Of three jobs in pool ``p`` it is known that another one should ask for 3 GB and an hour."""
    assert shown(amounts(stated, number, past, known(3, 1))) == asked


def test_each_amount_has_its_origin() -> None:
    origins = {"resources.memory": "stage", GROWS_TO: "pool"}
    stage = attempt(1, most=(4, None), origins=origins)
    said = [one.place("resources.memory") for one in planned([stage] * 2)]
    assert said == ["stage", "pool"]
    measured = attempt(4, 2, most=(4, 2), measured=BOTH, origins=origins)
    (first,) = planned([measured], known(3, 1))
    assert (first.place("resources.memory"), first.place("config.walltime")) == ("3 jobs",) * 2


def test_what_lacked_memory_asks_for_twice_as_much_or_half_more_than_any_other() -> None:
    assert grown(2 * GB, 1 * GB) == 4 * GB
    assert grown(2 * GB, 6 * GB) == 9 * GB
    assert grown(2 * GB, 6 * GB, 10) == 20 * GB


@given(st.integers(1, 10**12), st.integers(1, 10**13), st.floats(0, 1e12))
def test_tries_end_soon_at_what_the_largest_worker_has(asked: int, most: int, took: float) -> None:
    stated = [Attempt("p", ResourceRequest(memory=asked), most={"memory": most})] * 60
    tries, now = 0, amounts(stated, 1)
    assert now.request.memory == min(asked, most)
    while now.request.memory != most:
        more = amounts(stated, 2, died(now, "memory"), lambda *_: Known(None, took))
        assert (now.request.memory or 0) < (more.request.memory or 0) <= most
        now, tries = more, tries + 1
    assert tries <= 45  # each twice the one before


def test_nothing_else_decides_how_an_amount_grows() -> None:
    """Others say up to how much, and by how much; what is asked for next is computed here."""
    package = Path(fasthep_smk.__file__).parent
    reads = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "growth"
    }
    assert reads == {
        "config/routing.py",  # from a pool's settings
        "plan/amounts.py",
        "translate/profile.py",  # jobs in the queue that grew otherwise are others
    }
