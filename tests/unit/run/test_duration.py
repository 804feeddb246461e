"""How long a run may take: the longest path through its rules."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fasthep_smk.run.duration import Duration, Load, longest


def after(*names: str) -> frozenset[str]:
    return frozenset(names)


def test_nothing_to_do() -> None:
    assert longest({}) == Duration(0.0)
    assert longest({"a": Load(0, 60)}) == Duration(0.0)
    assert longest({"a": Load(0)}) == Duration(0.0)


def test_waves() -> None:
    assert longest({"a": Load(10, 60)}).seconds == 60  # as many workers as jobs
    assert longest({"a": Load(10, 60, slots=1)}).seconds == 600
    assert longest({"a": Load(10, 60, slots=3)}).seconds == 240
    assert longest({"a": Load(10, 60, slots=10)}).seconds == 60
    assert longest({"a": Load(10, 60, slots=100)}).seconds == 60


def test_the_longest_path_counts() -> None:
    loads = {
        "finish": Load(1, 5, after=after("slow", "quick")),
        "slow": Load(4, 100, slots=2, after=after("side")),
        "quick": Load(4, 1, after=after("side")),
        "side": Load(1, 10),
        "apart": Load(1, 150),
    }
    assert longest(loads) == Duration(10 + 200 + 5)
    assert longest({**loads, "apart": Load(1, 1500)}) == Duration(1500)


def test_what_is_done_takes_no_time() -> None:
    loads = {"a": Load(0, 100), "b": Load(2, 10, after=after("a"))}
    assert longest(loads) == Duration(10)


def test_an_unknown_time_makes_it_a_lower_bound() -> None:
    loads = {
        "a": Load(1, 100),
        "b": Load(2, None, after=after("a")),
        "c": Load(1, 5, None, after("b")),
    }
    found = longest(loads)
    assert (found.seconds, found.unknown, found.is_lower_bound) == (105, ("b",), True)
    assert not longest({"a": Load(1, 100), "b": Load(0)}).is_lower_bound


def test_rules_that_are_not_there_and_long_chains() -> None:
    assert longest({"a": Load(1, 7, after=after("gone"))}).seconds == 7
    chain = {str(n): Load(1, 1, after=after(str(n + 1))) for n in range(5000)}
    assert longest(chain).seconds == 5000


@given(st.dictionaries(st.integers(0, 12), st.tuples(st.integers(0, 5), st.integers(1, 9),
                                                     st.sets(st.integers(0, 12)))))  # fmt: skip
def test_as_found_by_trying_all_paths(graph: dict[int, tuple[int, int, set[int]]]) -> None:
    """Rules wait only for those of a lower number: there is no circle."""

    def end(name: int) -> int:
        jobs, walltime, waits = graph[name]
        before = [end(one) for one in waits if one in graph and one < name]
        return max(before, default=0) + (walltime if jobs else 0)

    loads = {
        str(name): Load(jobs, walltime, after=after(*(str(one) for one in waits if one < name)))
        for name, (jobs, walltime, waits) in graph.items()
    }
    assert longest(loads).seconds == max(map(end, graph), default=0)
