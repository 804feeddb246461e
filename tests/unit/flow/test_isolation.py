"""What own operations are given to change, and that it costs no memory in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import awkward as ak
import numpy as np
import pytest

from fasthep_smk.flow import plan_files, upstream
from fasthep_smk.flow.isolation import Isolation, _packed, copy_arguments
from fasthep_smk.flow.own_modules import random_state
from fasthep_smk.flow.shapes import Plan
from fasthep_smk.flow.stage_error import TooManyEvents
from tests.unit.plans import REGISTRY, node

OWN = {"my.op": {"spec": f"{__name__}:SPEC", "impl": f"{__name__}:SPEC"}}


def own(name: str, source: str) -> dict[str, Any]:
    return {**node("define", name, source), "impl": "my.op"}


def plan_of(nodes: list[dict[str, Any]]) -> Plan:
    registry = {**REGISTRY, "transforms": {**REGISTRY["transforms"], **OWN}}
    return plan_files.plan_from({"nodes": nodes, "registry": registry})


def run(
    operation: Callable[[ak.Array], Any],
    nodes: list[dict[str, Any]],
    kept: set[tuple[str, str]],
    *,
    selected: bool = False,
) -> tuple[ak.Array, ak.Array, Any, list[str]]:
    """Return the events, what the last node got and returned, and what it has changed."""
    events = ak.Array({"x": [1.0, 2.0, 3.0], "j": [[1.0], [2.0, 3.0], []]})
    if selected:
        events = ak.concatenate([events, events])[[True] * 3 + [False] * 3]
    plan = plan_of(nodes)
    isolation = Isolation(plan, kept, random_state())
    inputs: dict[str, Any] = {"stream": events}
    ctx: dict[str, Any] = {"globals": {"a": 1}, "_warnings": []}
    last = plan.get_node("stage.Own")
    isolation.enter(last, inputs, ctx)
    mine = inputs["stream"]
    returned = operation(mine)
    return events, mine, returned, isolation.leave(last, returned, ctx)


CHAIN = [node("source", "events"), own("Own", "read.events")]
BESIDE = [*CHAIN, node("hist", "H", "read.events")]


def data(array: ak.Array, column: str) -> int:
    """Return where in memory the numbers of a column lie."""
    return int(ak.to_buffers(array[column])[2]["node0-data"].ctypes.data)


def add(stream: ak.Array) -> ak.Array:
    return ak.with_field(stream, stream.x * 2, "y")


def test_events_that_nothing_else_reads_are_not_copied() -> None:
    events, mine, _, changes = run(add, CHAIN, set())
    assert data(mine, "x") == data(events, "x")
    assert changes == []


@pytest.mark.parametrize(("nodes", "kept"), [(BESIDE, set()), (CHAIN, {("read.events", "stream")})])
def test_events_that_are_read_or_kept_are_copied_while_the_operation_runs(
    nodes: list[dict[str, Any]], kept: set[tuple[str, str]]
) -> None:
    events, mine, returned, changes = run(add, nodes, kept)
    assert data(mine, "x") != data(events, "x")
    assert data(returned, "x") == data(events, "x"), "the copy stays in memory"
    assert returned.j.to_list() == events.j.to_list()
    assert changes == []


def test_what_was_selected_from_copies_does_not_keep_them() -> None:
    events, _, returned, _ = run(lambda stream: add(stream[stream.x > 1]), BESIDE, set())
    column = returned.layout.contents[0].content
    assert column.data.ctypes.data == data(events, "x"), "the copy stays in memory"
    assert returned.j.to_list() == [[2, 3], []]


@pytest.mark.parametrize("with_field", [False, True])
def test_selected_events_are_not_written_to(with_field: bool) -> None:
    def spoil(stream: ak.Array) -> ak.Array:
        for values in (stream.x, stream["x"], ak.flatten(stream.j), stream.j[:, :1]):
            np.asarray(ak.flatten(values, axis=None))[:] = 0
            ak.to_numpy(ak.ravel(values))[:] = 0
        np.asarray(stream.x)[:] = 0
        return stream

    events = ak.Array({"x": [1.0, 2.0, 3.0], "j": [[1.0], [2.0, 3.0], []]})
    selected = events[events.x > 1]
    if with_field:
        selected = ak.with_field(selected, selected.x * 2, "y")
    inputs: dict[str, Any] = {"stream": selected}
    plan = plan_of(BESIDE)
    isolation = Isolation(plan, set(), random_state())
    last, ctx = plan.get_node("stage.Own"), {"_warnings": []}
    isolation.enter(last, inputs, ctx)
    isolation.leave(last, spoil(inputs["stream"]), ctx)
    assert events.to_list() == [{"x": 1, "j": [1]}, {"x": 2, "j": [2, 3]}, {"x": 3, "j": []}]


@pytest.mark.parametrize("selected", [False, True])
def test_a_column_that_is_changed_stays_that_of_the_operation(selected: bool) -> None:
    def spoil(stream: ak.Array) -> ak.Array:
        np.asarray(stream.x)[:] = 0
        return add(stream)

    events, _, returned, changes = run(spoil, BESIDE, set(), selected=selected)
    assert events.x.to_list() == [1, 2, 3]
    assert returned.x.to_list() == [0, 0, 0]
    # Selected events are copies anyway: they are not compared.
    assert changes == ([] if selected else ["the values of 'x' in its input"])


@pytest.mark.parametrize("selected", [False, True])
def test_functions_write_into_copies_however_events_were_selected(selected: bool) -> None:
    def spoil(values: ak.Array) -> ak.Array:
        np.asarray(values)[:] = 0
        return values

    functions: dict[str, Any] = {"spoil": spoil}
    copy_arguments({"functions": {"spoil": f"{__name__}:spoil"}}, functions)
    events = ak.Array({"x": [1.0, 2.0]})
    values = events[[True, True]].x if selected else events.x
    assert functions["spoil"](values).to_list() == [0, 0]
    assert values.to_list() == [1, 2]


def test_columns_set_in_place_are_those_of_the_operation() -> None:
    def spoil(stream: ak.Array) -> ak.Array:
        stream["x"] = stream.x * 2
        return stream

    events, _, returned, changes = run(spoil, CHAIN, set())
    assert events.x.to_list() == [1, 2, 3]
    assert returned.x.to_list() == [2, 4, 6]
    assert changes == ["the columns of its input"]


def test_events_that_cannot_be_written_to_are_copied() -> None:
    column = np.ones(3)
    column.flags.writeable = False
    plan = plan_of(CHAIN)
    inputs: dict[str, Any] = {"stream": ak.zip({"x": ak.Array(column)}, depth_limit=1)}
    Isolation(plan, set(), random_state()).enter(plan.get_node("stage.Own"), inputs, {})
    assert inputs["stream"].x.to_numpy().flags.writeable


@pytest.mark.parametrize(
    "returned",
    [
        lambda twice: twice,
        lambda twice: {"stream": twice},
        lambda twice: {"name": twice},
        lambda twice: upstream.OperationResult(products={"stream": twice}, product_refs=[]),
    ],
)
def test_more_events_than_came_in_are_refused(returned: Callable[[ak.Array], Any]) -> None:
    with pytest.raises(TooManyEvents, match="it returned 6 events, but got 3"):
        run(lambda stream: returned(ak.concatenate([stream, stream])), CHAIN, set())


def test_what_is_no_event_stream_may_be_longer() -> None:
    table = {**own("Own", "read.events"), "outputs": {"table": "table"}}
    run(
        lambda stream: {"table": ak.flatten(stream.j + 1)[[0, 1, 2, 0, 1]]},
        [CHAIN[0], table],
        set(),
    )


class Odd:
    """A product that can be pickled, and not copied."""

    def __init__(self) -> None:
        self.values = [1]

    def __deepcopy__(self, memo: object) -> object:
        raise TypeError("no copies")


@pytest.mark.parametrize("value", [[1], Odd()])
def test_each_sink_at_the_end_gets_a_product_of_its_own(value: Any) -> None:
    sink = {**node("writer", "Plot"), "impl": "my.sink"}
    isolation = Isolation(plan_of([*CHAIN, sink]), None, random_state())
    store = isolation.handing_out({("merged", "table"): value})
    handed = store["merged", "table"]
    getattr(handed, "values", handed).append(2)  # type: ignore[attr-defined]
    assert getattr(value, "values", value) == [1]


def test_published_sinks_get_what_is_there() -> None:
    store: dict[tuple[str, str], object] = {("merged", "table"): [1]}
    assert Isolation(plan_of(CHAIN), None, random_state()).handing_out(store) is store


def test_selected_events_are_packed_as_awkward_packs_them() -> None:
    """By a shorter way than ``ak.to_packed``, which the values and types are compared with."""
    jets = ak.Array([[1.0, 2.0], [], [3.0], [4.0, 5.0, 6.0]])
    events = ak.Array(
        {
            "x": np.arange(4, dtype=np.float32), "pt": jets, "eta": jets * 2, "b": [True] * 4,
            "deep": [[[1], []], [], [[2, 3]], []], "text": ["a", "", "c", "d"],
            "none": [1, None, 3, None], "jets": ak.zip({"pt": jets, "eta": jets * 2}),
            "fixed": np.ones((4, 2)), "odd": ak.concatenate([[1, 2], [[3.0], []]]),
        }
    )  # fmt: skip
    for chosen in ([2, 0, 3], [], [1, 1, 1]):
        selected = events[chosen]
        for stream in (selected, ak.with_field(selected, selected.x * 2, "new")):
            (packed, new), expected = _packed(stream), ak.to_packed(stream)
            assert packed.type == expected.type
            assert packed.to_list() == expected.to_list()
            assert ak.array_equal(packed, expected, dtype_exact=True)
            assert not any(
                isinstance(one, ak.contents.IndexedArray) for one in packed.layout.contents
            )
            given = ak.to_buffers(stream)[2].values()
            assert new.count(True) >= 4  # x, pt, eta and b
            for column in [packed.fields[at] for at, is_new in enumerate(new) if is_new]:
                numbers = ak.to_buffers(packed[column])[2].values()
                assert not any(np.may_share_memory(a, b) for a in numbers for b in given)
