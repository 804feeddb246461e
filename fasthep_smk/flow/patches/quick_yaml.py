"""PyYAML's values and texts in less time, while FAST-HEP compiles and tells what a run did.

It reads each of its profiles some eight times, reads the plans that it has just written, and writes
each twice. Most of a compile's time is PyYAML's, which is written in Python.

- A text of a person's is parsed once, by PyYAML: its messages name lines and columns.
- A text that PyYAML itself has just written is parsed by libyaml: the values are the same. It is
  parsed once, too: a plan is read to draw its graph, for its digest, and by us.
- What is made of plain printable text is written by libyaml, too: so are its texts. They differ
  where characters are escaped, and for keys that are empty or very long.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import pickle
from collections.abc import Iterator
from typing import Any

import yaml

from fasthep_smk.flow.patches import QUICK_YAML

#: Characters; longer texts are not written by people, and are seldom read twice.
_LONGEST = 200_000
#: Longer keys are written otherwise.
_LONGEST_KEY = 100
#: Number of texts that are remembered until the process ends: later steps of a run read them again.
_TEXTS = 200
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", None)
#: What was read -> its value, pickled.
_known: dict[str, bytes] = {}
#: Digests of what was written in a block and read there -> their values, pickled; until it ends.
_parsed: dict[bytes, bytes] = {}


@contextlib.contextmanager
def quick_yaml() -> Iterator[None]:
    """Let ``yaml.safe_load`` and ``yaml.safe_dump`` take less time in the block.

    Each call returns a value of its own, equal to what parsing would give. Files are read and
    written as usual.
    """
    load, dump = yaml.safe_load, yaml.safe_dump
    written: set[bytes] = set()

    def quick_load(stream: Any) -> object:
        text = _text_of(stream)
        if text is None:
            return load(stream)
        if text in _known:
            return pickle.loads(_known[text])
        digest = _digest(text)
        if digest in written:
            with contextlib.suppress(yaml.YAMLError):  # half of a pair of surrogates
                parsed = parse_written(text)
                if digest not in _parsed:
                    _parsed[digest] = pickle.dumps(parsed)  # before the caller can change it
                return parsed
        value = load(stream)
        if len(text) <= _LONGEST and len(_known) < _TEXTS:
            with contextlib.suppress(Exception):  # too deep, or of a kind that cannot be copied
                _known[text] = pickle.dumps(value)  # before the caller can change it
        return value

    def quick_dump(data: object, stream: Any = None, **options: Any) -> Any:
        if options.get("encoding") or not (stream is None or isinstance(stream, io.TextIOBase)):
            return dump(data, stream, **options)
        quick = _quick(data, options)
        text = dump(data, **options) if quick is None else quick
        written.add(_digest(text))
        if stream is None:
            return text
        stream.write(text)
        return None

    try:
        with QUICK_YAML.made(yaml, safe_load=quick_load, safe_dump=quick_dump):
            yield
    finally:
        _parsed.clear()


def parse_written(text: str | bytes) -> Any:
    """Return the value of a text that PyYAML has written."""
    if _parsed and (pickled := _parsed.get(_digest(text))):
        return pickle.loads(pickled)
    return yaml.load(text, Loader=_LOADER)


def is_plain(data: object) -> bool:
    """Whether libyaml writes ``data`` as PyYAML does."""
    if isinstance(data, dict):
        return all(_is_plain_key(key) and is_plain(value) for key, value in data.items())
    if isinstance(data, list | tuple):
        return all(map(is_plain, data))
    if isinstance(data, str):
        return data.isascii() and data.isprintable()
    return data is None or isinstance(data, bool | int | float)


def _is_plain_key(key: object) -> bool:
    if not isinstance(key, str):
        return key is None or isinstance(key, bool | int | float)
    return 0 < len(key) <= _LONGEST_KEY and is_plain(key)


def _quick(data: object, options: dict[str, Any]) -> str | None:
    """Return the text that libyaml writes; ``None`` if PyYAML may write another one."""
    width = options.get("width", 80)
    if (
        _DUMPER is None
        # PyYAML's own has been given one more, which libyaml's does not have.
        or "yaml_representers" in vars(yaml.SafeDumper)
        or "yaml_multi_representers" in vars(yaml.SafeDumper)
        or options.keys() - {"sort_keys", "width"}
        or width not in (80, float("inf"))
    ):
        return None
    try:
        if _DUMPER is None or not (isinstance(data, dict) and is_plain(data)):
            return None
    except RecursionError:
        return None
    wide = {"width": -1} if width != 80 else {}  # its number for lines without an end
    return str(yaml.dump(data, Dumper=_DUMPER, **{**options, **wide}))


def _text_of(stream: object) -> str | None:
    """Return what is to be parsed; a file is left where it was."""
    if isinstance(stream, str):
        return stream
    if not isinstance(stream, io.TextIOBase) or not stream.seekable():
        return None
    place = stream.tell()
    text = stream.read()
    stream.seek(place)
    return text


def _digest(text: str | bytes) -> bytes:
    content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return hashlib.sha256(content).digest()
