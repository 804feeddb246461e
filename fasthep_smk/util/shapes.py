"""Types that msgspec reads JSON into, each made ready by one thread.

When msgspec first reads into a type, it keeps what it finds out about its fields, and shows that to
other threads before it is complete: they crash the process. Snakemake submits jobs in several
threads, which read the same tables.
"""

from __future__ import annotations

import threading
from typing import TypeVar

import msgspec

_Shape = TypeVar("_Shape")

_lock = threading.Lock()
_ready: set[object] = set()


def ready(shape: _Shape) -> _Shape:
    """Return a type into which any thread may read."""
    if shape not in _ready:
        with _lock:
            msgspec.json.Decoder(shape)
            _ready.add(shape)
    return shape
