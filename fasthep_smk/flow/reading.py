"""FAST-HEP reads each of its profiles some eight times per compile: read the same text once."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator
from typing import Any

import yaml

__all__ = ["each_text_once"]

#: Characters; longer texts are plans, which are not read twice.
_LONGEST = 200_000


@contextlib.contextmanager
def each_text_once() -> Iterator[None]:
    """Let ``yaml.safe_load`` parse a text only once in the block.

    Each call returns a value of its own, equal to what parsing would give. Files are read as ever.
    """
    load = yaml.safe_load
    known: dict[str, bytes] = {}

    def remembering(stream: Any) -> Any:
        if not isinstance(stream, str) or len(stream) > _LONGEST:
            return load(stream)
        if stream in known:
            return pickle.loads(known[stream])
        value = load(stream)
        with contextlib.suppress(RecursionError):  # too deep to be copied
            known[stream] = pickle.dumps(value)  # before the caller can change it
        return value

    yaml.safe_load = remembering
    try:
        yield
    finally:
        yaml.safe_load = load
