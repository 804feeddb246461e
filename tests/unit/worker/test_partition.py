"""What a partition's job is given: the products of other jobs, read once for a bundle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import awkward as ak
import numpy as np
import pytest

from fasthep_smk.storage import products
from fasthep_smk.storage.products import Product
from fasthep_smk.storage.task_table import Read
from fasthep_smk.worker import partition
from tests.support import tables

STREAM, OTHER = ("stage.S", "stream"), ("stage.S", "other")


def save(folder: Path, **values: object) -> None:
    made = [
        Product("stage.S", port, "event_stream", value, stream_file=f"{port}.arrow")
        for port, value in values.items()
    ]
    content = products.save(folder, made, declared=())
    products.write_record(folder, {"rule": "r", "key": "k", **content})


def test_the_next_job_of_a_bundle_is_given_what_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = tables.job(tmp_path, "r", "partition", "k")
    bundled = replace(alone, bundle="b")
    save(tmp_path / "one", stream=ak.Array({"x": [1.0, 2.0]}))
    save(tmp_path / "two", stream=ak.Array({"x": [3.0]}))
    read: list[str] = []
    load = products.load
    monkeypatch.setattr(products, "load", lambda f, k: (read.append(f.name), load(f, k))[1])
    one, two = Read("one", (STREAM,)), Read("two", (STREAM,))

    def given(job: object, *reads: Read) -> list[object]:
        return [value.x.to_list() for value in partition._read(job, reads).values()]  # type: ignore

    assert given(bundled, one) == given(bundled, one) == [[1.0, 2.0]]
    assert read == ["one"]
    # A column that one job adds is not there for the next.
    first = partition._read(bundled, [one])[STREAM]
    assert isinstance(first, ak.Array)
    first["y"] = np.zeros(2)
    assert partition._read(bundled, [one])[STREAM].fields == ["x"]  # type: ignore
    assert given(bundled, two) == [[3.0]]
    assert read == ["one", "two"]
    assert given(alone, two) == [[3.0]]
    assert read == ["one", "two", "two"]
    save(tmp_path / "two", stream=ak.Array({"x": [4.0]}))
    assert given(bundled, two) == [[4.0]]


def test_what_is_no_event_stream_is_read_again(tmp_path: Path) -> None:
    job = replace(tables.job(tmp_path, "r", "partition", "k"), bundle="b")
    save(tmp_path / "one", stream=ak.Array({"x": [1.0]}), other={"n": [1]})
    read = Read("one", (STREAM, OTHER))
    partition._read(job, [read])[OTHER]["n"].append(2)  # type: ignore
    assert partition._read(job, [read])[OTHER] == {"n": [1]}
