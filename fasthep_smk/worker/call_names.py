"""What own code names in a call: files, folders and environment variables.

A library is often called with less than the whole name: a folder, a pattern, a name without its
suffix, an object that holds it; a program with a whole command. ``observe.py`` asks, to tell what a
user's own code wanted from what a library looks up for itself.
"""

from __future__ import annotations

import contextlib
import dis
import glob
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import Any

from fasthep_smk.flow.named_files import NamedFiles
from fasthep_smk.util.remote import local_path

#: How many values of a list or mapping that a library is called with are compared with a name.
_MOST = 200
#: How many files that match a pattern of a command are looked at.
_MOST_MATCHES = 1000
_BETWEEN_WORDS = re.compile(r"[\s=;|&<>()'\"`@,:]+")
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")
#: What a shell makes several names of.
_CHOICE = re.compile(r"\{[^{}\s'\"]*(,|\.\.)[^{}\s'\"]*\}")
_SHELLS = ("sh", "bash", "dash", "ksh", "zsh", "csh", "tcsh", "fish")
_SET = re.compile(r"\[[^]]*\]")
#: In which a shell looks for no files.
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|\$\(\(.*?\)\)")
_DESCRIPTOR = re.compile(r"(/proc/self|/dev)/fd/\d+")


def is_called_with(frame: FrameType, name: str, *, depth: int = 2) -> bool:
    """Whether a function was called with a name, or holds it in an object that it was called on.

    ``depth`` is how far lists and mappings are looked into.
    """
    if frame.f_code.co_name == "<module>":
        return False
    if "/importlib/resources/" in frame.f_code.co_filename:
        return True  # it is called with a package and a name in it
    try:
        return any(_names(value, name, depth=depth) for value in frame.f_locals.values())
    except Exception:  # an object that cannot be looked at
        return False


def _names(value: object, name: str, *, depth: int) -> bool:
    if isinstance(value, str | bytes | os.PathLike):
        return _is_name_of(os.fsdecode(value), name)
    if depth <= 0:
        return False
    if isinstance(value, partial):
        value = (value.args, value.keywords)
    if isinstance(value, Mapping):
        return any(_names(item, name, depth=depth - 1) for item in list(value.values())[:_MOST])
    if isinstance(value, list | tuple | set | frozenset):
        return any(_names(item, name, depth=depth - 1) for item in list(value)[:_MOST])
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict) and not isinstance(value, type):
        return any(_names(item, name, depth=depth - 2) for item in list(own.values())[:_MOST])
    return False


def _is_name_of(text: str, name: str) -> bool:
    """Whether a text names a file or variable, or a folder or family of files that it is in."""
    if "\n" in text or len(text) > 4096:
        return False
    if not name.startswith("/"):
        return text == name or f"${name}" in text or f"${{{name}}}" in text
    text = text.rpartition("::")[2]  # "zip://b.txt::sf.zip" is what fsspec calls a file in another
    plain, *pattern = re.split(r"[*?\[]", local_path(text) or text, maxsplit=1)
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


def variables_in(word: str) -> list[str]:
    """Return the environment variables that a word of a command names as a shell does."""
    return _VARIABLE.findall(word)


def starts_shell(words: Sequence[str]) -> bool:
    """Whether a shell is among the words that a program is started with, or is given one text."""
    return len(words) == 1 or any(word.rpartition("/")[2] in _SHELLS for word in words)


def paths_in(
    word: str, folder: str, variables: Mapping[Any, Any], files: NamedFiles, *, shell: bool
) -> Iterator[str]:
    """Yield the paths that a word of a command may name, from a ``folder`` on.

    A word may be a whole command of a shell, ``--option=file``, ``@file`` or ``file:key``. With a
    folder go all files below, with a pattern the files that match and the folder where others may
    come. A mere ``*`` is one for a ``shell`` only: else it is a product, a regular expression, SQL.
    """
    values = {**variables, "PWD": folder or os.getcwd()}  # noqa: PTH109
    text = _VARIABLE.sub(lambda match: os.fsdecode(values.get(match[1], match[0])), word)
    words = [text := _CHOICE.sub("*", text)]
    with contextlib.suppress(ValueError):  # a quotation mark that is no shell's
        words += shlex.split(text)
    bare = _BETWEEN_WORDS.split(_QUOTED.sub("", text))
    parts = (part for whole in words for part in (whole, *_BETWEEN_WORDS.split(whole)))
    for part in filter(None, dict.fromkeys(parts)):
        path = os.path.join(folder, os.path.expanduser(part))  # noqa: PTH111, PTH118
        fixed, *pattern = re.split(r"[*?\[]", part, maxsplit=1)
        if os.path.isdir(path):  # noqa: PTH112
            yield from files.below(path)
        elif os.path.lexists(path) or not pattern:
            yield path
        elif not (re.search(r"\w", _SET.sub("", part)) or (shell and part in bare)):
            continue
        elif matches := glob.glob(path, recursive=True)[:_MOST_MATCHES]:  # noqa: PTH207
            yield from [_above(path), *matches]
        elif os.path.dirname(fixed).strip("/"):  # noqa: PTH120
            yield _above(path)


def _above(pattern: str) -> str:
    """Return the folder that files which match a pattern lie in, or are looked for below."""
    return os.path.dirname(re.split(r"[*?\[]", pattern, maxsplit=1)[0]) or "."  # noqa: PTH120


def place_of(path: Any) -> str | None:
    """Return the absolute path of a file, ``None`` for what has no name."""
    try:
        path = f"/proc/self/fd/{path}" if isinstance(path, int) else os.fsdecode(path)
        place = os.path.abspath(path)  # noqa: PTH100
        if descriptor := _DESCRIPTOR.match(place):
            place = os.readlink(descriptor[0]) + place[descriptor.end() :]  # noqa: PTH115
    except (TypeError, ValueError, OSError):
        return None
    return place if place.startswith("/") else None


def in_folder(path: Any, descriptor: int) -> str:
    """Return a path that starts in the folder of a descriptor; that is -1 if there is none."""
    text = os.fsdecode(path)
    return text if descriptor < 0 else f"/proc/self/fd/{descriptor}/{text}"


def paths_below_open_folders(path: Any) -> list[Any]:
    """Return what a relative path names, if its start is the current folder or any open one."""
    if os.path.isabs(path):  # noqa: PTH117
        return [path]
    paths = [in_folder(path, int(number)) for number in os.listdir("/proc/self/fd")]  # noqa: PTH208
    places = [path, *(place for place in paths if os.path.isdir(os.path.dirname(place)))]  # noqa: PTH112, PTH120
    return [place for place in places if os.path.lexists(place)] or places


def makes_mapping(frame: FrameType) -> bool:
    """Whether a frame makes a mapping of all variables now, for another program perhaps.

    ``{**os.environ}`` and ``dict(os.environ)`` do, a loop or ``sorted(os.environ)`` looks at them.
    """
    instructions = list(dis.get_instructions(frame.f_code))
    now = next(step for step in instructions if step.offset == frame.f_lasti)
    if not now.opname.startswith("CALL"):
        return now.opname in ("DICT_UPDATE", "DICT_MERGE")
    return any(
        step.argval in ("dict", "update") and step.opname.startswith("LOAD")
        for step in instructions  # of the same expression: line and column where it begins
        if step.positions and now.positions and step.positions[::2] == now.positions[::2]
    )
