"""An event stream comes back from its file with the same type, values, order and attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pyarrow as pa
import pytest

from fasthep_smk.storage.streams import (
    read_stream,
    register_behaviours,
    select_columns,
    write_stream,
)


def through_file(folder: Path, array: Any, live: tuple[str, ...] | None = None) -> Any:
    """Return ``array`` written to a file and read back."""
    write_stream(folder / "stream.arrow", array, live=live)
    return read_stream(folder / "stream.arrow")


def assert_same(back: Any, array: Any) -> None:
    assert type(back) is ak.Array
    assert back.type == array.type
    assert list(back.fields) == list(array.fields)
    assert ak.array_equal(
        back, array, equal_nan=True, check_parameters=True, same_content_types=False
    )


COUNTS = np.array([2, 0, 3])
MANY = {
    "numbers": ak.Array(
        {
            "u8": np.array([2**64 - 1, 0, 1], dtype=np.uint64),
            "f2": np.array([1.5, -2.0, np.nan], dtype=np.float16),
            "f8": np.array([np.inf, -0.0, 5e-324]),
            "flag": [True, False, True],
            "complex": [1 + 2j, 3 - 1j, 0],
        }
    ),
    "dates": ak.Array({"t": np.array(["2026-01-01", "1969-12-31"], dtype="datetime64[s]")}),
    "jagged with equal offsets": ak.Array(
        {
            "Muon_pt": ak.unflatten(np.arange(5.0), COUNTS),
            "met": [1.0, 2.0, 3.0],
            "Muon_charge": ak.unflatten(np.arange(5, dtype=np.int32), COUNTS),
            "Jet_pt": ak.unflatten(np.arange(5.0), np.array([0, 2, 3])),
        }
    ),
    "jagged twice": ak.Array({"x": [[[1], [2, 3]], [], [[]]]}),
    "lists of fixed length": ak.Array({"x": ak.to_regular(ak.Array([[1, 2], [3, 4]]), axis=1)}),
    "options": ak.Array({"x": [1.5, None, 2.5], "l": [[1, None], None, []]}),
    "nothing but missing": ak.Array({"x": ak.mask([1.0, 2.0], [False, False])}),
    "bit masks": ak.Array(
        {
            "x": ak.mask([1, 2, 3], [True, False, True]).layout.to_BitMaskedArray(
                valid_when=True, lsb_order=False
            )
        }
    ),
    "texts and bytes": ak.Array({"s": ["", "日本語 🎉", None], "b": [b"", b"\x00\xff", b"x"]}),
    "records": ak.Array([{"p": {"x": 1, "y": [{"z": 2.0}]}}, {"p": None}]),
    "tuples": ak.Array({"pair": [(1, 2.0), (3, 4.0)]}),
    "unions": ak.Array({"u": [1, "two", [3.0], None]}),
    "categories": ak.Array({"c": ak.str.to_categorical(["a", "b", "a"])}),
    "an unknown type": ak.Array({"x": ak.Array([[], []]), "u": [None, None]}),
    "no events": ak.Array({"x": np.zeros(0, np.float32), "l": ak.Array([[1, 2]])[:0]}),
    "no fields": ak.Array(ak.contents.RecordArray([], [], length=7)),
    "a plain array": ak.Array([[1.0], [], [2.0, 3.0]]),
    "odd names": ak.Array({"with space": [1], "": [2], "a.b": [3], "node0": [[4]], "é": [5]}),
}


def test_a_selection_is_written_with_its_live_columns_only(tmp_path: Path) -> None:
    array = ak.Array({"x": np.arange(10), "y": np.arange(10), "l": ak.unflatten(np.arange(20), 2)})
    back = through_file(tmp_path, array[array.x > 6], live=("x",))
    assert back.to_list() == [{"x": 7}, {"x": 8}, {"x": 9}]


def test_lists_and_texts_that_are_all_missing(tmp_path: Path) -> None:
    names = ak.firsts(ak.Array([[["a"]], []])[[1]])
    array = ak.Array({"lists": names, "texts": ak.firsts(ak.Array([["a"], []])[[1]])})
    back = through_file(tmp_path, array)
    assert str(back.type) == str(array.type)
    assert back.to_list() == [{"lists": None, "texts": None}]


def test_a_date_that_is_missing_stays_missing(tmp_path: Path) -> None:
    array = ak.Array({"d": np.array(["2016-05-01", "NaT"], dtype="datetime64[D]")})
    assert np.isnat(np.asarray(through_file(tmp_path, array).d)).tolist() == [False, True]


@pytest.mark.parametrize("array", MANY.values(), ids=MANY.keys())
def test_a_stream_comes_back_as_it_was(tmp_path: Path, array: Any) -> None:
    assert_same(through_file(tmp_path, array), array)


def test_a_view_of_a_larger_array_comes_back_alone(tmp_path: Path) -> None:
    array = ak.Array({"x": np.arange(1000.0), "l": ak.unflatten(np.arange(2000), 2)})
    for view in (array[10:13], array[[5, 3, 3]], array[array.x < 4], array[::-250]):
        assert_same(through_file(tmp_path, view), view)
    # 24 kB are behind the views; a file of nothing but types takes 3 kB.
    assert (tmp_path / "stream.arrow").stat().st_size < 4000


def test_every_bit_of_a_number_is_kept(tmp_path: Path) -> None:
    bits = np.array([0x7FF8000000000123, 0x8000000000000000, 0xFFF0000000000001], dtype=np.uint64)
    back = through_file(tmp_path, ak.Array({"x": bits.view(np.float64)}))
    assert np.array_equal(np.asarray(back.x).view(np.uint64), bits)


def test_named_records_keep_their_name_and_get_their_methods(tmp_path: Path) -> None:
    register_behaviours()
    columns = {"pt": [[30.0, 20.0], []], "eta": [[0.1, 1.0], []]}
    columns |= {"phi": [[0.0, 3.0], []], "mass": [[0.1, 0.1], []]}
    muons = ak.zip({k: ak.Array(v) for k, v in columns.items()}, with_name="Momentum4D")
    array = ak.Array({"mu": muons, "met": [1.0, 2.0]})
    back = through_file(tmp_path, array)
    assert_same(back, array)
    assert ak.parameters(back.mu.layout.content)["__record__"] == "Momentum4D"
    assert back.mu.px.to_list() == array.mu.px.to_list()


def test_a_named_stream_keeps_its_name(tmp_path: Path) -> None:
    array = ak.with_name(ak.Array({"pt": [1.0], "n": [2]}), "Event")
    back = through_file(tmp_path, array)
    assert_same(back, array)
    assert ak.parameters(back)["__record__"] == "Event"


@pytest.mark.parametrize(
    "array", [ak.Array({"x": [1.0, 2.0]}), ak.Array([1, 2])], ids=["records", "plain"]
)
def test_attributes_are_kept_unless_they_are_transient(tmp_path: Path, array: Any) -> None:
    array.attrs["source"] = ("file.root", 3)
    array.attrs["@transient"] = object()
    array.attrs["cannot be stored"] = object()
    back = through_file(tmp_path, array)
    assert back.attrs["source"] == ("file.root", 3)
    assert set(back.attrs) == {"source"}


def test_equal_offsets_are_stored_once(tmp_path: Path) -> None:
    through_file(tmp_path, MANY["jagged with equal offsets"])
    with pa.OSFile(str(tmp_path / "stream.arrow"), "rb") as source:
        names = pa.ipc.open_file(source).schema.names
    assert len([name for name in names if name.endswith("-offsets")]) == 2


def test_dead_columns_are_left_out(tmp_path: Path) -> None:
    array = ak.Array({"x": [1.0], "y": [[2]], "z": ["three"]})
    back = through_file(tmp_path, array, live=("y",))
    assert_same(back, array[["y"]])


def test_a_stream_of_dead_columns_keeps_its_number_of_events(tmp_path: Path) -> None:
    array = ak.Array({"x": [1.0, 2.0, 3.0]})
    assert len(through_file(tmp_path, array, live=())) == 3
    assert len(through_file(tmp_path, array, live=("other",))) == 3


def test_live_columns_are_named_exactly_by_glob_or_by_part() -> None:
    fields = ["Muon", "Muon_pt", "Jet_pt", "Jet_eta", "met", "mu"]
    assert select_columns(fields, None) == fields
    assert select_columns(fields, ["met", "absent"]) == ["met"]
    assert select_columns(fields, ["Jet_*"]) == ["Jet_pt", "Jet_eta"]
    assert select_columns(fields, ["mu.pt"]) == ["mu"]
    assert select_columns(fields, ["Muon_pt"]) == ["Muon", "Muon_pt"]
    assert select_columns(fields, ["Mu"]) == []


def test_the_same_events_make_the_same_file(tmp_path: Path) -> None:
    array = MANY["jagged with equal offsets"]
    write_stream(tmp_path / "one.arrow", array)
    write_stream(tmp_path / "two.arrow", array)
    assert (tmp_path / "one.arrow").read_bytes() == (tmp_path / "two.arrow").read_bytes()
