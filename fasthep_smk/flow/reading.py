"""FAST-HEP reads each of its profiles some eight times per compile, and the plans it has written.

The first are parsed once. What PyYAML itself has just written is read by libyaml's parser, which
gives the same values in a tenth of the time; of texts that people write, their marks and messages
would be others.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import pickle
from collections.abc import Iterator
from typing import Any

import yaml

__all__ = ["each_text_once", "parse_written"]

#: Characters; longer texts are not written by people, and are seldom read twice.
_LONGEST = 200_000


@contextlib.contextmanager
def each_text_once() -> Iterator[None]:
    """Let ``yaml.safe_load`` parse a text of a person's only once in the block.

    Each call returns a value of its own, equal to what parsing would give. Files are read and
    written as ever.
    """
    load, dump = yaml.safe_load, yaml.safe_dump
    known: dict[str, bytes] = {}
    written: set[bytes] = set()

    def remembering(stream: Any) -> Any:
        text = _text_of(stream)
        if text is None:
            return load(stream)
        if text in known:
            return pickle.loads(known[text])
        if _digest(text) in written:
            return parse_written(text)
        value = load(stream)
        if len(text) <= _LONGEST:
            with contextlib.suppress(RecursionError):  # too deep to be copied
                known[text] = pickle.dumps(value)  # before the caller can change it
        return value

    def noting(data: Any, stream: Any = None, **options: Any) -> Any:
        if options.get("encoding") or not (stream is None or isinstance(stream, io.TextIOBase)):
            return dump(data, stream, **options)
        text = dump(data, **options)
        written.add(_digest(text))
        return text if stream is None else stream.write(text) and None

    yaml.safe_load, yaml.safe_dump = remembering, noting
    try:
        yield
    finally:
        yaml.safe_load, yaml.safe_dump = load, dump


def parse_written(text: str | bytes) -> Any:
    """Return the value of a text that PyYAML has written."""
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _text_of(stream: Any) -> str | None:
    """Return what is to be parsed; a file is left where it was."""
    if isinstance(stream, str):
        return stream
    if not isinstance(stream, io.TextIOBase) or not stream.seekable():
        return None
    place = stream.tell()
    text = stream.read()
    stream.seek(place)
    return text


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
