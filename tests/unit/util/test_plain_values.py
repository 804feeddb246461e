"""Plain values come back from JSON as they were: same types, same bits, same order."""

from __future__ import annotations

import datetime as dt
import enum
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fasthep_smk.util.plain_values import NotPlainError, from_plain, to_plain


def through_json(value: Any) -> Any:
    """Return ``value`` written as JSON text and read back."""
    return from_plain(json.loads(json.dumps(to_plain(value))))


class Colour(enum.IntEnum):
    RED = 1


class Own:
    """A class of a user's own."""


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -1,
        10**40,
        0.1,
        -0.0,
        5e-324,
        1.7976931348623157e308,
        math.inf,
        -math.inf,
        "",
        "text",
        "日本語 🎉 \n\t\0 \u2028",
        "\udcff",
        [],
        [1, [2.0, "three", [None]]],
        {},
        {"b": 1, "a": {"c": []}},
        {1: "one", None: 2, (1, 2): "pair", False: "no", 2.5: "half"},
        {"$": "not a tag", "v": 3},
        {"$": "stream"},
        {"nested": {"$": "pickle", "member": "x"}},
        (),
        (1, (2, [3, (4,)])),
        set(),
        {1, 2, 3},
        {"a", ("b", 1)},
        frozenset({"x", "y"}),
        b"",
        bytes(range(256)),
        1 + 2j,
        complex(math.inf, -0.0),
        dt.date(2026, 2, 28),
        dt.datetime(2026, 2, 28, 12, 30, 1, 123456),
        dt.datetime(2026, 2, 28, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30))),
        Path("data/with space/a.root"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_comes_back_with_its_type(value: Any) -> None:
    back = through_json(value)
    assert type(back) is type(value)
    assert repr(back) == repr(value)
    assert back == value


def test_not_a_number_stays_one() -> None:
    assert math.isnan(through_json(math.nan))
    back = through_json(complex(math.nan, 1.0))
    assert math.isnan(back.real)
    assert back.imag == 1.0


def test_a_dictionary_keeps_its_order_and_the_types_of_its_keys() -> None:
    back = through_json({"z": 1, "a": 2, 3: 4})
    assert [(type(key), key) for key in back] == [(str, "z"), (str, "a"), (int, 3)]


@pytest.mark.parametrize(
    "scalar",
    [
        np.float32(0.1),
        np.float64(-0.0),
        np.float16(1.5),
        np.int8(-128),
        np.uint64(2**64 - 1),
        np.bool_(True),
        np.complex64(1 - 2j),
        np.str_("ü"),
        np.str_(""),
        np.bytes_(b"abc"),
        np.datetime64("2026-02-28T12:00:00.123456789", "ns"),
        np.datetime64("NaT"),
        np.timedelta64(3, "s"),
    ],
    ids=repr,
)
def test_a_numpy_scalar_stays_a_numpy_scalar(scalar: Any) -> None:
    back = through_json(scalar)
    assert type(back) is type(scalar)
    assert back.dtype == scalar.dtype
    assert back.tobytes() == scalar.tobytes()


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.0, np.nan, -0.0, np.inf]),
        np.array([0x7FF8000000000123], dtype=np.uint64).view(np.float64),
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10)[::3],
        np.array([1, 2], dtype=">i4"),
        np.array(5.0),
        np.array([], dtype=np.float32),
        np.zeros((2, 0, 3)),
        np.array([True, False]),
        np.array(["a", "long"]),
        np.array([b"a", b"bc"]),
        np.array(["2026-01-01"], dtype="datetime64[D]"),
        np.array([1 + 1j], dtype=np.complex128),
    ],
    ids=lambda array: f"{array.dtype.str}{array.shape}",
)
def test_a_numpy_array_keeps_type_shape_and_bits(array: np.ndarray[Any, Any]) -> None:
    back = through_json({"in a": [array]})["in a"][0]
    assert type(back) is np.ndarray
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.tobytes() == array.tobytes()
    back.flags.writeable = True  # ops may fill an array in place


@pytest.mark.parametrize(
    "value",
    [
        Own(),
        Colour.RED,
        type("Text", (str,), {})("x"),
        type("Items", (list,), {})([1]),
        dt.timedelta(1),
        range(3),
        np.array([object()]),
        np.zeros(2, dtype=[("a", "i4")]),
        {"deep": [Own()]},
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_exact_form_is_refused_by_type(value: Any) -> None:
    with pytest.raises(NotPlainError, match="has no plain form"):
        to_plain(value)


def test_a_leaf_stores_what_has_no_exact_form_elsewhere() -> None:
    kept: list[Any] = []

    def put(value: Any) -> dict[str, Any]:
        kept.append(value)
        return {"$": "kept", "number": len(kept) - 1}

    own = Own()
    plain = json.loads(json.dumps(to_plain({"a": (1, own)}, leaf=put)))
    back = from_plain(plain, leaf=lambda item: kept[item["number"]])
    assert back == {"a": (1, own)}
    assert back["a"][1] is own


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(NotPlainError, match="'mystery'"):
        from_plain({"$": "mystery", "v": 1})


def test_equal_sets_are_written_alike() -> None:
    words = [f"w{number}" for number in range(50)]
    backwards = words[::-1]
    assert json.dumps(to_plain(set(words))) == json.dumps(to_plain(set(backwards)))


def test_a_masked_array_has_no_plain_form() -> None:
    with pytest.raises(NotPlainError):
        to_plain(np.ma.masked_array([1, 2], mask=[True, False]))
