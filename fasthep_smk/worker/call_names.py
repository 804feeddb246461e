"""Whether a function was called with the name of a file or an environment variable.

A library is often called with less than the whole name: a folder, a pattern, a name without its
suffix, an object that holds it. ``observe.py`` asks, to tell what a user's own code wanted from
what a library looks up for itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from types import FrameType

__all__ = ["is_called_with"]

#: How many values of a list or mapping that a library is called with are compared with a name.
_MOST = 200


def is_called_with(frame: FrameType, name: str) -> bool:
    """Whether a function was called with a name, or holds it in an object that it was called on."""
    if frame.f_code.co_name == "<module>":
        return False
    if "/importlib/resources/" in frame.f_code.co_filename:
        return True  # it is called with a package and a name in it
    try:
        return any(_names(value, name, depth=2) for value in frame.f_locals.values())
    except Exception:  # an object that cannot be looked at
        return False


def _names(value: object, name: str, *, depth: int) -> bool:
    if isinstance(value, str | bytes | os.PathLike):
        return _is_name_of(os.fsdecode(value), name)
    if depth == 0:
        return False
    if isinstance(value, Mapping):
        return any(_names(one, name, depth=depth - 1) for one in list(value.values())[:_MOST])
    if isinstance(value, list | tuple | set | frozenset):
        return any(_names(one, name, depth=depth - 1) for one in list(value)[:_MOST])
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict) and not isinstance(value, type):
        return any(_names(one, name, depth=0) for one in list(own.values())[:_MOST])
    return False


def _is_name_of(text: str, name: str) -> bool:
    """Whether a text names a file or variable, or a folder or family of files that it is in."""
    if len(text) < 2 or "\n" in text or len(text) > 4096:
        return False
    if not name.startswith("/"):
        return text == name or f"${name}" in text or f"${{{name}}}" in text
    plain, *pattern = re.split(r"[*?\[]", text.removeprefix("file://"), maxsplit=1)
    if pattern:
        plain = plain.rpartition("/")[0]
    if not plain.strip("./~"):
        return False
    place = os.path.abspath(os.path.expanduser(os.path.expandvars(plain)))  # noqa: PTH100, PTH111
    # "file.root:tree" names a file, "model" a family of files with suffixes.
    return (
        place == name
        or place.startswith(f"{name}:")
        or (name.startswith(place) and name[len(place)] in "/.")
    )
