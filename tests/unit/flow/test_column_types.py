"""Columns of every type, as axis, weight and cut: the right number, or one message.

What is right is computed here event by event, from the values as Python has them.
"""

from __future__ import annotations

import itertools
import math
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import awkward as ak
import numpy as np
import pytest

from fasthep_smk.flow import upstream
from fasthep_smk.flow.column_types import UnfitColumn, pairs_with, refuse_bits
from tests.unit.flow.patches.test_evaluated import begin

FLOATS = [0.5, 1.5, 2.5, 3.5]
CONTENTS = ak.contents
COLUMNS: dict[str, Any] = {
    "float64": FLOATS,
    "float32": np.array(FLOATS, "f4"),
    "float16": np.array(FLOATS, "f2"),
    **{name: np.array([0, 1, 2, 3], name) for name in ("int8", "int32", "uint8", "uint16")},
    "uint64": np.array([0, 1, 2, 2**63 + 5], "u8"),
    "uint8 above 15": np.array([0, 20, 2, 250], "u1"),
    "int64 above 2**53": np.array([0, 1, 2**53 + 1, 2**40], "i8"),
    "float16 above 255": np.array([0.5, 300, 2, 3], "f2"),
    "bool": [True, False, True, True],
    "complex": np.array([0.5 + 1j, 1.5, 2.5, 3.5]),
    "datetime": np.array([0, 1, 2, 3], "M8[s]"),
    "timedelta": np.array([0, 1, 2, 3], "m8[s]"),
    "text": ["a", "b", "a", "c"],
    "bytes": [b"a", b"b", b"a", b"c"],
    "categorical text": ak.str.to_categorical(ak.Array(["a", "b", "a", "c"])),
    "lists of texts": [["a"], ["b", "a"], [], ["c"]],
    "text and None": ["a", None, "a", "c"],
    "None": [0.5, None, 2.5, 3.5],
    "option without None": CONTENTS.UnmaskedArray(CONTENTS.NumpyArray(np.array(FLOATS))),
    "indexed option": CONTENTS.IndexedOptionArray(
        ak.index.Index64(np.array([3, -1, 1, 0])), CONTENTS.NumpyArray(np.array(FLOATS))
    ),
    "indexed": CONTENTS.IndexedArray(
        ak.index.Index64(np.array([3, 2, 1, 0])), CONTENTS.NumpyArray(np.array(FLOATS))
    ),
    "masked": ak.from_numpy(np.ma.masked_array(FLOATS, [0, 1, 0, 0])),
    "nothing but None": [None] * 4,
    "4 values": np.arange(16.0).reshape(4, 4) / 4,
    "3 values": np.arange(12.0).reshape(4, 3) / 4,
    "1 value": np.arange(4.0).reshape(4, 1),
    "no value": np.zeros((4, 0)),
    "2 values and None": ak.to_regular(ak.Array([[0.5, None], [1, 2], [2, 3], [1, 1]])),
    "lists": [[0.5, 1.5], [], [2.5], [3.5]],
    "lists of other lengths": [[0.5], [1.5], [2.5, 3.5], []],
    "lists and None in them": [[0.5, None], [], [2.5], [3.5]],
    "lists and None": [[0.5, 1.5], None, [2.5], [3.5]],
    "lists of lists": [[[0.5], [1.5]], [], [[2.5, 0.5]], [[3.5]]],
    "empty lists": ak.Array([[], [], [], []]),
    "records": [{"a": 1.0, "b": 2.0}] * 4,
    "tuples": [(1.0, 2.0)] * 4,
    "numbers and texts": [1.0, "x", 2.0, "y"],
    "numbers and lists": [1.0, [1.0, 2.0], 2.0, 3.0],
}
#: Refused, whatever the values are: which values go together is not said by their types.
_EACH = ("4 values", "3 values", "1 value", "no value")
REGULAR = {"type": "regular", "bins": {"nbins": 4, "low": 0, "high": 4}}
AXES: dict[str, dict[str, Any]] = {
    "regular": REGULAR,
    "int": {"type": "int"},
    "bool": {"type": "bool"},
    "category": {"type": "category"},
    "listed category": {"type": "category", "bins": ["a", "b"]},
}


def events_with(**columns: str) -> ak.Array:
    made = {"x": ak.Array(FLOATS)} | {name: ak.Array(COLUMNS[one]) for name, one in columns.items()}
    return ak.zip(made, depth_limit=1)


def run(impl: str, events: Any, **params: Any) -> Any:
    """Run an operation as a job does."""
    ctx = {"primary_stream": "events", "node_id": "stage.A"}
    names = {"hep.selection.flag": "run_selection_flag_transform", "hep.select_objects": None}
    name = names.get(impl, f"run_{impl.rpartition('.')[2]}_transform") or "run_select_objects"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin(impl, params, events, ctx)
        return getattr(upstream.evaluating_operation(impl), name)(stream=events, ctx=ctx, **params)


def entries(value: Any, reference: Any) -> list[Any] | None:
    """Return the values that an event has at the places of another column; ``None``: there are
    none, or others.
    """
    if isinstance(reference, list):
        held = value if isinstance(value, list) else [value] * len(reference)
        if len(held) != len(reference):
            return None
        parts = [entries(*pair) for pair in zip(held, reference, strict=True)]
        return None if None in parts else [one for part in parts for one in part or ()]
    return None if value is None or isinstance(value, list | dict | tuple | complex) else [value]


def depth(value: Any) -> int:
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


def filled(events: ak.Array, axes: list[str], weight: str | None) -> Counter[Any] | None:
    """Return the sum of weights for each combination of values, ``None`` if there is none."""
    found: Counter[Any] = Counter()
    names = [*axes, *([weight] if weight else [])]
    reference = max(names, key=lambda name: depth(events[name].tolist()))
    for event in events.tolist():
        # A dimension of length one, as that of NumPy arrays of shape (events, 1), makes no list.
        event |= {name: event[name][0] for name in names if "* 1 *" in str(events[name].type)}
        columns = [entries(event[name], event[reference]) for name in names]
        if None in columns:
            return None
        for values in zip(*map(list, columns), strict=True):  # type: ignore[arg-type]
            key = values[: len(axes)]
            found[key] += float(values[-1]) if weight else 1.0
    return found


def place(value: Any, axis: dict[str, Any]) -> Any:
    """Return the bin of a value: a number, or a word for what is outside."""
    if axis["type"] == "regular":
        value = float(value)
        return "outside" if not 0 <= value < 4 else math.floor(value)
    if axis["type"] == "category":
        text = value.decode() if isinstance(value, bytes) else value
        return text if text in axis.get("bins", [text]) else "outside"
    return int(value)


def binned(found: Counter[Any], axes: list[dict[str, Any]]) -> dict[Any, float]:
    sums: Counter[Any] = Counter()
    for values, weight in found.items():
        sums[tuple(map(place, values, axes))] += weight
    return {key: sum_ for key, sum_ in sums.items() if sum_}


def content(histogram: Any) -> dict[Any, float]:
    """Return the bins of a histogram that are not empty, by their places."""
    sums: Counter[Any] = Counter()
    values = histogram.values(flow=True)
    for index in np.argwhere(values):
        key = []
        for at, axis in zip(index, histogram.axes, strict=True):
            if type(axis).__name__ == "Regular":
                key.append("outside" if at in (0, 5) else int(at) - 1)
            else:
                key.append(axis.value(int(at)) if at < len(axis) else "outside")
        sums[tuple(key)] += float(values[tuple(index)])
    return dict(sums)


def pairs(*, step: int = 1) -> Iterator[tuple[str, str]]:
    yield from itertools.islice(itertools.product(COLUMNS, COLUMNS), None, None, step)


def holds(events: ak.Array, axes: list[tuple[str, dict[str, Any]]], weight: str | None) -> bool:
    """Fill a histogram; return whether it was, and is right. A wrong one fails."""
    listed = [{**axis, "name": name, "source": name} for name, axis in axes]
    more = {"storage": "weighted", "weight_expr": weight} if weight else {}
    try:
        histogram = run("hep.hist", events, axes=listed, **more)
    except Exception as error:
        assert str(error)
        return False
    if len(axes) == 1 and not weight:  # what is missing is left out, and counted in a warning
        name = axes[0][0]
        events = ak.zip({name: ak.drop_none(events[name], axis=None)}, depth_limit=1)
    expected = filled(events, [name for name, _ in axes], weight)
    assert expected is not None, "an event was dropped, or met another one's value"
    assert content(histogram) == pytest.approx(binned(expected, [axis for _, axis in axes]))
    return True


NUMBERS = {
    "float64", "float32", "float16", "int8", "int32", "uint8", "uint16", "uint64", "bool",
    "uint8 above 15", "int64 above 2**53", "float16 above 255", "option without None", "indexed",
}  # fmt: skip
LISTS = {"lists", "lists of other lengths", "lists of lists", "empty lists", *_EACH}
TEXTS = {"text", "bytes", "categorical text", "lists of texts"}


@pytest.mark.parametrize("axis", AXES)
def test_an_axis_of_each_type(axis: str) -> None:
    filled = {one for one in COLUMNS if holds(events_with(v=one), [("v", AXES[axis])], None)}
    whole = {"int8", "int32", "uint8", "uint16", "bool", "uint8 above 15"}
    assert (
        filled
        >= {
            "regular": NUMBERS | LISTS,
            "int": whole,
            "bool": {"bool"},
            "category": TEXTS,
            "listed category": TEXTS,
        }[axis]
    )


def test_two_axes_of_any_types() -> None:
    found = {
        (a, b)
        for a, b in pairs()
        if holds(events_with(v=a, w=b), [("v", REGULAR), ("w", REGULAR)], None)
    }
    assert found >= set(itertools.product(NUMBERS, NUMBERS))
    for one in ("lists", "lists of other lengths", "lists of lists"):
        assert found >= {(one, one), *itertools.product(NUMBERS, [one])}
        assert found >= set(itertools.product([one], NUMBERS))
    assert ("lists of lists", "lists") in found


@pytest.mark.parametrize("axis", ["float64", "lists", "lists of lists", *_EACH])
def test_a_weight_of_each_type(axis: str) -> None:
    found = {one for one in COLUMNS if holds(events_with(v=axis, w=one), [("v", REGULAR)], "w")}
    if axis not in _EACH:
        assert found >= NUMBERS
    if axis != "float64":
        assert axis in found


@pytest.mark.parametrize("weight", COLUMNS)
def test_a_cutflow_sums_weights_of_each_type(weight: str) -> None:
    events = events_with(w=weight)
    try:
        made = run("hep.selection.cutflow", events, selection={"A": ["x > 1"]}, weight_expr="w")
    except Exception as error:
        assert str(error)
        assert weight not in NUMBERS or " above " in weight or weight == "uint64"
        return
    found = filled(events, ["x"], "w")
    assert found is not None
    row = made["cutflow"]["cuts"][0]
    assert row["sumw_in"] == pytest.approx(sum(found.values()))
    squares = {key: value**2 for key, value in found.items()}
    assert row["sumw2_in"] == pytest.approx(sum(squares.values()))
    assert row["sumw2_out"] == pytest.approx(sum(squares.values()) - squares[(0.5,)])


@pytest.mark.parametrize(
    ("weights", "fits"),
    [
        (np.float32([0.1, -0.1] * 500 + [0.3, 0.1, -0.4]), True),  # the sum is but rounding
        (np.float32([0.1, -0.1, np.nan]), True),
        (np.float32([1e20, 1]), False),
        (np.uint8([10] * 1000 + [20]), False),  # one square is wrong, by 0.3 % of the sum
        (np.int8([10] * 1000 + [-11]), True),
        (np.int8([10] * 1000 + [-12]), False),
    ],
)
def test_a_weight_is_refused_if_its_type_makes_sums_wrong(weights: Any, fits: bool) -> None:
    events = ak.zip({"w": ak.Array(weights)}, depth_limit=1)
    cuts = {"A": ["w == w"]}
    if fits:
        run("hep.selection.cutflow", events, selection=cuts, weight_expr="w")
    else:
        with pytest.raises(UnfitColumn, match=f"do not fit into {weights.dtype}"):
            run("hep.selection.cutflow", events, selection=cuts, weight_expr="w")


@pytest.mark.parametrize("cut", COLUMNS)
def test_a_cut_of_each_type_is_a_yes_or_no_for_each_event(cut: str) -> None:
    events = events_with(w=cut)
    if cut == "bool":
        made = run("hep.selection.cutflow", events, selection={"A": ["w"]})
        assert made["stream"].x.tolist() == [0.5, 2.5, 3.5]
    else:
        with pytest.raises(ValueError, match="non-event-level mask"):
            run("hep.selection.cutflow", events, selection={"A": ["w"]})


def test_a_cut_that_is_missing_is_told_with_what_helps() -> None:
    cuts = {"A": ["w > 1"]}
    with pytest.raises(UnfitColumn, match="w > 1: 1 of its values are missing") as caught:
        run("hep.selection.cutflow", events_with(w="None"), selection=cuts)
    assert "fill_none(…, False)" in caught.value.hint
    axes = [{"type": "category", "name": "w", "source": "w"}]
    with pytest.raises(UnfitColumn, match="w: 1 of its values are missing") as caught:
        run("hep.hist", events_with(w="text and None"), axes=axes)
    assert "fill_none(…, a text)" in caught.value.hint


@pytest.mark.parametrize(
    ("expression", "columns", "says"),
    [
        ("x * w", "1 value", "cannot be paired with those of w, event by event"),
        ("x * w", "4 values", "their types are float64 and 4 \\* float64"),
        ("where(x > w, 1, 2)", "4 values", "cannot be paired"),
        ("x * w[:, 0]", "1 value", None),
        ("w * 2", "4 values", None),
        ("x * w", "lists", None),
        ("one(x)", "lists", "one number for all events"),
        ("sum(x)", "lists", "one number for all events"),
        ("two(x)", "lists", "makes 2 values from 4 events"),
        ("one(7)", "lists", None),
    ],
)
def test_an_expression_pairs_the_values_of_an_event(
    expression: str, columns: str, says: str | None
) -> None:
    events = events_with(w=columns)
    variable = {"name": "made", "expr": expression}
    ctx = {"one": lambda _: np.array([1.0]), "where": np.where, "sum": np.sum}
    ctx |= {"two": lambda _: np.array([1.0, 2.0])}
    begin("hep.define", {"variables": [variable]}, events, ctx)
    define = upstream.evaluating_operation("hep.define").run_define_transform
    if says is None:
        assert len(define(stream=events, variables=[variable], ctx=ctx).made) == 4
    else:
        with pytest.raises(UnfitColumn, match=says):
            define(stream=events, variables=[variable], ctx=ctx)


@pytest.mark.parametrize("selected", [[[True, None], [], [False], [True]], [[1, 0], [], [0], [1]]])
def test_objects_are_selected_by_a_yes_or_no_for_each(selected: list[Any]) -> None:
    """One that is missing would be an object more, which is none."""
    events = ak.zip({"Mu_pt": COLUMNS["lists"], "Mu_id": ak.Array(selected)}, depth_limit=1)
    params = {"collection": "Mu", "output": "Good", "keep": ["pt"], "selection": ["id"]}
    with pytest.raises(UnfitColumn, match=r"missing|numbers select by position"):
        run("hep.select_objects", events, **params)


def test_what_is_no_array_of_events_is_refused() -> None:
    """A single value in a mapping of columns would be that of all events."""
    axes = [{**REGULAR, "name": name, "source": name} for name in ("v", "w")]
    with pytest.raises(UnfitColumn, match="not an array of events"):
        run("hep.hist", {"v": np.array([1.0, 2.0]), "w": np.array([1.0])}, axes=axes)


LENGTHS = [[], [-1], [1], [2], [3], [-1, -1], [-1, 1], [-1, 3], [3, -1], [1, -1], [3, 3], [3, 1],
           [1, 3], [1, 1]]  # fmt: skip


@pytest.mark.parametrize("reference", [one for one in LENGTHS if one], ids=str)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_what_is_said_to_fit_awkward_pairs_event_by_event(
    lengths: list[int], reference: list[int]
) -> None:
    def column(dimensions: list[int], event: float = 0.0) -> Any:
        if not dimensions:
            return event
        count = [2, 0, 1][int(event)] if dimensions[0] < 0 else dimensions[0]
        return [column(dimensions[1:], event) for _ in range(count)]

    def array(dimensions: list[int]) -> Any:
        made = ak.Array([column(dimensions, float(event)) for event in range(3)])
        for axis, length in enumerate(dimensions, 1):
            made = ak.to_regular(made, axis=axis) if length >= 0 else made
        return (
            made if -1 in dimensions else ak.from_numpy(np.array(made.tolist()), regulararray=True)
        )

    if not pairs_with(lengths, reference):
        return
    try:
        first, second = ak.broadcast_arrays(array(lengths), array(reference))
    except ValueError:  # other lengths: it says so
        return
    assert ak.flatten(first, axis=None).tolist() == ak.flatten(second, axis=None).tolist()


def of_bits() -> ak.Array:
    flags = np.array([0, 1, 1, 0], dtype=np.uint8)
    good = [True, False, True, True]
    lists = [[1, 2], [], [6], [7]]
    return ak.Array({"n": [0, 1, 2, 3], "good": good, "flag": flags, "ids": lists, "pt": lists})


@pytest.mark.parametrize(
    ("text", "is_condition", "said"),
    [
        ("~n", True, "~(n) is true for 0 and 1"),
        ("~flag", True, "~(flag) is true for 0 and 1"),
        ("where(~n, 1, 2)", False, "~(n) is true for 0 and 1"),
        ("1.5 * ~n", False, "~(n) is true for 0 and 1"),
        ("n & good", False, "combines n, a whole number"),
        ("good & n & flag", False, "combines n, a whole number"),
        ("(pt > 1) & ids", False, "combines ids, a whole number"),
    ],
)
def test_bits_of_a_number_are_no_yes_or_no(text: str, is_condition: bool, said: str) -> None:
    with pytest.raises(UnfitColumn, match=re.escape(said)):
        refuse_bits(text, of_bits(), functions(), is_condition=is_condition)


@pytest.mark.parametrize(
    "text", ["~n", "flag & good", "(ids & 2) != 0", "~ids & 3", "~good & (n == 2)", "n ^ 2"]
)
def test_bits_may_be_meant(text: str) -> None:
    refuse_bits(text, of_bits(), functions(), is_condition=False)


def functions() -> dict[str, object]:
    """A context with the functions that expressions have."""
    context: dict[str, object] = {}
    upstream.ensure_expr_registry(context, upstream.default_expr_registry_config())
    return context
