"""Event streams as files: the buffers of an awkward array, as they are, in an Arrow file.

Each buffer (numbers, offsets, masks) is a column of bytes with one row, zstd level 1; the schema
says, as JSON, how they make the array. So every array comes back with its type and bits; columns of
events in Arrow's own types would lose some (complex numbers, categories, records without fields).
Offsets that several columns share (``Muon_Px``, ``Muon_Py`` …) are stored once.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable
from pathlib import Path

import awkward as ak
import numpy as np
import pyarrow as pa

from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.plain_values import NotPlainError, from_plain, to_plain

#: Under which name a file says how its buffers make the array.
_ABOUT = "awkward"


def register_behaviours() -> None:
    """Give records named ``Momentum4D`` and friends their methods, as FAST-HEP's ops do.

    The record name survives in the file, the Python behaviour does not: without this, an
    expression such as ``mu.pt`` works only where the op that made ``mu`` ran in the same process.
    """
    import vector

    vector.register_awkward()


def select_columns(fields: Iterable[str], live: Iterable[str] | None) -> list[str]:
    """Return those of ``fields`` that ``live`` may refer to, in their order; all if it is None.

    ``live`` holds names as FAST-HEP's data flow gives them: a field, a glob, or a dotted or
    prefixed part of a record (``mu.pt`` and ``Muon_pt`` keep a record ``mu`` or ``Muon``).
    """
    fields = list(fields)
    if live is None:
        return fields
    wanted = set(live)
    globs = [name for name in wanted if any(char in name for char in "*?[")]

    def is_live(field: str) -> bool:
        return (
            field in wanted
            or any(name.startswith((f"{field}.", f"{field}_")) for name in wanted)
            or any(fnmatch.fnmatchcase(field, glob) for glob in globs)
        )

    return [field for field in fields if is_live(field)]


def write_stream(
    path: Path, array: ak.Array, *, live: Iterable[str] | None = None, compress: bool = True
) -> None:
    """Write an event stream.

    ``live`` names the columns that anything downstream may read; others are left out. Without
    ``compress`` it takes half of the time and a little more space.
    """
    array = ak.to_backend(array, "cpu")  # a modifier may have moved columns to a GPU
    attrs = _plain_attrs(array)
    events = array.layout
    if isinstance(events, ak.contents.IndexedArray):
        events = events.content  # a selection is an index into all events
    if live is not None and events.is_record and not events.is_tuple:
        fields = select_columns(array.fields, live)
        if not fields:
            array = ak.Array(ak.contents.RecordArray([], [], length=len(array)))
        elif fields != array.fields:
            array = array[fields]
    form, length, buffers = ak.to_buffers(ak.to_packed(array))
    columns: dict[str, pa.Array] = {}
    same: dict[str, str] = {}
    offsets: dict[bytes, str] = {}
    for name, buffer in buffers.items():
        content = np.asarray(buffer).reshape(-1).view(np.uint8)
        if name.endswith("-offsets"):
            same[name] = offsets.setdefault(content.tobytes(), name)
        if same.get(name, name) == name:
            ends = pa.py_buffer(np.array([0, len(content)], np.int64))
            parts = [None, ends, pa.py_buffer(content)]
            columns[name] = pa.Array.from_buffers(pa.large_binary(), 1, parts)
    about = {"form": form.to_dict(), "length": length, "same": same, "attrs": attrs}
    batch = pa.RecordBatch.from_pydict(columns, metadata={_ABOUT: json.dumps(about)})
    codec = pa.Codec("zstd", compression_level=1) if compress else None
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, batch.schema, options=options) as writer,
    ):
        writer.write_batch(batch)


def read_stream(path: Path) -> ak.Array:
    """Return the event stream that :func:`write_stream` wrote, of the same type and values."""
    # Not memory-mapped: replacing a mapped file on a network file system kills the reader.
    with pa.OSFile(str(path), "rb") as source:
        batch = pa.ipc.open_file(source).get_batch(0)
    about = json.loads(batch.schema.metadata[_ABOUT.encode()])
    buffers = {
        name: np.frombuffer(column.buffers()[2], np.uint8)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    buffers |= {name: buffers[first] for name, first in about["same"].items()}
    form = ak.forms.from_dict(about["form"])
    return ak.from_buffers(form, about["length"], buffers, attrs=from_plain(about["attrs"]) or None)


def _plain_attrs(array: ak.Array) -> JsonObject:
    """Return the array's attributes as far as they can be stored; awkward's own rule for ``@``."""
    kept: JsonObject = {}
    for key, value in dict(array.attrs or {}).items():
        if str(key).startswith("@"):
            continue  # transient by awkward's definition
        try:
            kept[str(key)] = json.loads(json.dumps(to_plain(value)))
        except NotPlainError:
            continue
    return kept
