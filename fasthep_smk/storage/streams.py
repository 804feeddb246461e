"""Event streams as files: Arrow IPC, bit-exact, with what Arrow would lose kept beside it.

One record batch per file, zstd level 1, awkward's extension types (they keep option types, record
names and unknown types), 32-bit offsets. Jagged columns with equal offsets (``Muon_Px``,
``Muon_Py`` …) are stored as one list of records, so that the offsets are stored once. What Arrow
cannot hold (complex numbers, categories, records without fields, a plain array instead of
records) is written as the array's own buffers in an ``npz`` instead. Formats were chosen by
measurement; Arrow's is at https://arrow.apache.org/docs/format/Columnar.html.
"""

from __future__ import annotations

import fnmatch
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypedDict

import awkward as ak
import numpy as np
import pyarrow as pa

from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.plain_values import NotPlainError, from_plain, to_plain

_ZIP = "__zip_"


class _Meta(TypedDict):
    """What is kept beside any file of an event stream."""

    length: int
    attrs: JsonObject
    versions: dict[str, str]


class ArrowMeta(_Meta):
    """What an Arrow file is read with; ``zips`` are columns that are stored as one, by its name."""

    codec: Literal["arrow"]
    fields: list[str]
    zips: dict[str, list[str]]
    parameters: object


class BuffersMeta(_Meta):
    """What an array's own buffers are read with: its form as JSON, and their names in it."""

    codec: Literal["buffers"]
    form: str
    keys: list[str]


StreamMeta = ArrowMeta | BuffersMeta


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
) -> StreamMeta:
    """Write an event stream of ``len(array)`` events; return what :func:`read_stream` needs.

    ``live`` names the columns that anything downstream may read; others are left out. Without
    ``compress`` it takes a quarter of the time and twice the space.
    """
    array = ak.to_backend(array, "cpu")  # a modifier may have moved columns to a GPU
    layout = array.layout
    if isinstance(layout, ak.contents.IndexedArray) and layout.content.is_record:
        # A selection is an index into all events.
        array = ak.Array(layout.project(), attrs=array.attrs)
        layout = array.layout
    attrs = _plain_attrs(array)
    fields = select_columns(array.fields, live) if layout.is_record else []
    meta: _Meta = {
        "length": len(array),
        "attrs": attrs,
        "versions": {"awkward": ak.__version__, "pyarrow": pa.__version__},
    }
    if layout.is_record and not layout.is_tuple and fields:
        array = ak.to_packed(array[fields] if fields != list(array.fields) else array)
        if all(_fits_arrow(array[field].layout.form) for field in fields):
            try:
                return _write_arrow(path, array, fields, compress, meta)
            except Exception:
                # Some contents have no Arrow form, or awkward fails to find it (a column of lists
                # that are all missing): their buffers hold them exactly.
                pass
    if layout.is_record and live is not None and not layout.is_tuple:
        array = ak.Array(
            ak.contents.RecordArray(
                [array.layout[field] for field in fields],
                fields,
                length=len(array),
                parameters=layout.parameters,
            )
        )
    return _write_buffers(path, array, meta)


def read_stream(path: Path, meta: StreamMeta) -> ak.Array:
    """Return the event stream that :func:`write_stream` wrote, of the same type and values."""
    array = _read_arrow(path, meta) if meta["codec"] == "arrow" else _read_buffers(path, meta)
    attrs = from_plain(meta.get("attrs") or {})
    return ak.Array(array, attrs=attrs) if attrs else array


def _write_arrow(
    path: Path, array: ak.Array, fields: list[str], compress: bool, meta: _Meta
) -> ArrowMeta:
    record = array.layout
    columns: dict[str, ak.contents.Content] = {}
    zips: dict[str, list[str]] = {}
    for names in _groups_by_offsets(record, fields):
        if len(names) == 1:
            columns[names[0]] = record[names[0]]
            continue
        lists = [record[name] for name in names]
        inner = ak.contents.RecordArray([item.content for item in lists], names)
        key = f"{_ZIP}{len(zips)}"
        while key in fields:
            key = f"_{key}"
        zips[key] = names
        columns[key] = ak.contents.ListOffsetArray(lists[0].offsets, inner)
    stored = ak.Array(
        ak.contents.RecordArray(list(columns.values()), list(columns), length=len(array))
    )
    table = ak.to_arrow_table(stored, list_to32=True, extensionarray=True).combine_chunks()
    codec = pa.Codec("zstd", compression_level=1) if compress else None
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, table.schema, options=options) as writer,
    ):
        # A table without rows has no batch of its own; the file must still carry the types.
        writer.write_table(table, max_chunksize=max(len(array), 1))
    return {
        **meta,
        "codec": "arrow",
        "fields": fields,
        "zips": zips,
        "parameters": to_plain(dict(record.parameters)),
    }


def _read_arrow(path: Path, meta: ArrowMeta) -> ak.Array:
    # Not memory-mapped: replacing a mapped file on a network file system kills the reader.
    with pa.OSFile(str(path), "rb") as source:
        table = pa.ipc.open_file(source).read_all()
    stored = ak.from_arrow(table, highlevel=False)
    length = int(meta["length"])
    columns: dict[str, ak.contents.Content] = {}
    for name in stored.fields:
        column = stored[name]
        names = meta["zips"].get(name)
        if names is None:
            columns[name] = column
            continue
        offsets = column.to_ListOffsetArray64(True)
        for field in names:
            columns[field] = ak.contents.ListOffsetArray(offsets.offsets, offsets.content[field])
    record = ak.contents.RecordArray(
        [columns[field] for field in meta["fields"]],
        list(meta["fields"]),
        length=length,
        parameters=from_plain(meta.get("parameters") or {}),
    )
    return ak.Array(record)


def _write_buffers(path: Path, array: ak.Array, meta: _Meta) -> BuffersMeta:
    form, _, buffers = ak.to_buffers(ak.to_packed(array))
    stream = io.BytesIO()
    keys = list(buffers)
    named: dict[str, Any] = {f"b{i}": np.asarray(buffers[key]) for i, key in enumerate(keys)}
    np.savez(stream, **named)
    path.write_bytes(stream.getvalue())
    return {**meta, "codec": "buffers", "form": form.to_json(), "keys": keys}


def _read_buffers(path: Path, meta: BuffersMeta) -> ak.Array:
    with np.load(path, allow_pickle=False) as stored:
        buffers = {key: stored[f"b{index}"] for index, key in enumerate(meta["keys"])}
    return ak.from_buffers(ak.forms.from_json(meta["form"]), int(meta["length"]), buffers)


def _groups_by_offsets(record: ak.contents.RecordArray, fields: list[str]) -> list[list[str]]:
    """Group the jagged columns that share their offsets; every other column stands alone."""
    groups: list[list[str]] = []
    shared: dict[tuple[int, int], list[list[str]]] = {}
    for name in fields:
        layout = record[name]
        if not (
            isinstance(layout, ak.contents.ListOffsetArray)
            and isinstance(layout.content, ak.contents.NumpyArray)
            and not layout.parameters
            and not layout.content.parameters
        ):
            groups.append([name])
            continue
        offsets = np.asarray(layout.offsets)
        candidates = shared.setdefault((len(offsets), int(offsets[-1])), [])
        for group in candidates:
            if np.array_equal(np.asarray(record[group[0]].offsets), offsets):
                group.append(name)
                break
        else:
            group = [name]
            candidates.append(group)
            groups.append(group)
    return groups


def _fits_arrow(form: ak.forms.Form) -> bool:
    """Whether Arrow holds this form exactly (measured case by case, see the docstring)."""
    if isinstance(form, ak.forms.EmptyForm):
        return False  # zero events of unknown type come back as an option type
    if form.parameter("__categorical__") or form.parameter("__array__") == "categorical":
        return False
    if isinstance(form, ak.forms.NumpyForm):
        # Arrow's dates lose "not a time"; an inner axis of length zero cannot be read back.
        lost = form.primitive.startswith("complex") or form.primitive.endswith("64[D]")
        return not lost and 0 not in form.inner_shape
    if isinstance(form, ak.forms.RegularForm) and form.size == 0:
        return False
    if isinstance(form, ak.forms.RecordForm):
        return bool(form.contents) and all(_fits_arrow(item) for item in form.contents)
    if isinstance(form, ak.forms.UnionForm):
        return all(_fits_arrow(item) for item in form.contents)
    content = getattr(form, "content", None)
    return True if content is None else _fits_arrow(content)


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
