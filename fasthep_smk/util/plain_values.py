"""Plain values as JSON that comes back exactly: same types, same bits.

JSON alone turns tuples into lists, keys into strings and NumPy scalars into nothing. Here each
value that JSON cannot hold is written as ``{"$": <kind>, "v": <content>}``. What has no exact form
is handed to ``leaf``, which may store it elsewhere and return what to write in its place; without
``leaf`` it raises :class:`NotPlainError`. Reading never runs code from the file.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from fasthep_smk.util.documents import JsonObject

Leaf = Callable[[object], JsonObject]


class NotPlainError(TypeError):
    """A value has no exact form in JSON."""


def to_plain(value: Any, *, leaf: Leaf | None = None) -> object:
    """Return ``value`` as a structure of dicts, lists and scalars that ``json`` writes exactly.

    Raises:
        NotPlainError: a part of ``value`` has no exact form and there is no ``leaf`` for it.
    """
    kind = type(value)
    if value is None or kind in (bool, int, str, float):
        return value
    if kind is list:
        return [to_plain(item, leaf=leaf) for item in value]
    if kind is dict:
        if "$" not in value and all(type(key) is str for key in value):
            return {key: to_plain(item, leaf=leaf) for key, item in value.items()}
        pairs = [
            [to_plain(key, leaf=leaf), to_plain(item, leaf=leaf)] for key, item in value.items()
        ]
        return {"$": "dict", "v": pairs}
    if kind is tuple:
        return {"$": "tuple", "v": [to_plain(item, leaf=leaf) for item in value]}
    if kind in (set, frozenset):
        items = sorted((to_plain(item, leaf=leaf) for item in value), key=repr)
        return {"$": kind.__name__, "v": items}
    if kind is bytes:
        return {"$": "bytes", "v": base64.b64encode(value).decode("ascii")}
    if kind is complex:
        return {"$": "complex", "v": [value.real, value.imag]}
    if kind in (dt.datetime, dt.date):
        return {"$": kind.__name__, "v": value.isoformat()}
    if isinstance(value, PurePath):
        return {"$": "path", "v": str(value)}
    # Subclasses (masked arrays, matrices) hold more than their bytes.
    is_numpy = isinstance(value, np.generic) or kind is np.ndarray
    if is_numpy and _is_flat_dtype(value.dtype):
        array = np.ascontiguousarray(value)
        content = base64.b64encode(array.tobytes()).decode("ascii")
        shape = None if isinstance(value, np.generic) else list(np.shape(value))
        return {"$": "numpy", "dtype": value.dtype.str, "shape": shape, "v": content}
    if leaf is not None:
        return leaf(value)
    raise NotPlainError(f"a value of type {kind.__module__}.{kind.__qualname__} has no plain form")


def from_plain(value: object, *, leaf: Callable[[JsonObject], object] | None = None) -> Any:
    """Return the value that :func:`to_plain` wrote.

    Raises:
        NotPlainError: a tag is unknown and there is no ``leaf`` to read it.
    """
    if isinstance(value, list):
        return [from_plain(item, leaf=leaf) for item in value]
    if not isinstance(value, dict):
        return value
    if "$" not in value:
        return {key: from_plain(item, leaf=leaf) for key, item in value.items()}
    kind, content = value["$"], value.get("v")
    reader = _READERS.get(kind)
    if reader is not None:
        return reader(from_plain(content, leaf=leaf))
    if kind == "numpy":
        return _numpy(value)
    if leaf is not None:
        return leaf(value)
    raise NotPlainError(f"unknown kind of value {kind!r}")


def _is_flat_dtype(dtype: np.dtype[np.generic]) -> bool:
    return dtype.kind in "biufcmMSU"


def _numpy(value: JsonObject) -> object:
    dtype = np.dtype(value["dtype"])
    if dtype.itemsize == 0:  # an empty string: nothing to read it from
        return np.zeros(value["shape"] or (), dtype)[() if value["shape"] is None else ...]
    raw = np.frombuffer(base64.b64decode(value["v"]), dtype=dtype)
    return raw[0] if value["shape"] is None else raw.reshape(value["shape"]).copy()


_READERS: dict[str, Callable[[Any], object]] = {
    "dict": dict,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "bytes": base64.b64decode,
    "complex": lambda parts: complex(*parts),
    "datetime": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "path": Path,
}
