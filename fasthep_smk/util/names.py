"""The one place where text from a workflow becomes a name in a file system, Snakefile or shell.

Dataset names, stage ids and variation names are free text: spaces, quotes, ``$``, ``{}``,
newlines, 200 characters. Everything we write into rule names, paths, wildcards and commands goes
through :func:`encode`, whose result is made of ``[A-Za-z0-9_]`` only and therefore means the same
to Python, Snakemake, a shell and every file system. Text that must keep its value (a path of the
user's) goes through :func:`shell` or :func:`literal` instead.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")
_MAX_LENGTH = 60
#: FAST-HEP names folders and files after datasets and variations; most file systems take 255.
_MAX_BYTES = 200
#: In a path, Snakemake fills in ``{name}`` (wildcards) and ``<name>`` (its path variables).
_FILLED_IN = re.compile(r"[{}]|<[a-z][a-z0-9_]*>")
_RESERVED = frozenset({"all", "con", "prn", "aux", "nul"})


def encode(text: str) -> str:
    """Return a name for ``text`` made of letters, digits and underscores, unique to ``text``.

    Text that is such a name already and is short stays as it is (``DiMuonMass``), so that
    folders and rules are readable. Anything else becomes a readable
    remainder and the first ten hexadecimal digits of the text's SHA-256: two different texts
    never share a name.
    """
    slug = _UNSAFE.sub("_", text).strip("_")
    plain = slug == text and 0 < len(text) <= _MAX_LENGTH
    # A plain name that looks like an encoded one could meet the encoding of another text.
    if plain and not re.search(r"(^|_)x[0-9a-f]{10}$", text) and text.lower() not in _RESERVED:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    slug = slug[: _MAX_LENGTH - 14].rstrip("_")
    return f"{slug}_x{digest}" if slug else f"x{digest}"


def is_plain(path: str) -> bool:
    """Whether Snakemake takes a path as it is; it has no way to write one otherwise."""
    return _FILLED_IN.search(path) is None


def folder_problem(name: str) -> str | None:
    """Return why FAST-HEP must not name a folder after ``name``; ``None`` if it may."""
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return "holds a character that is not Unicode text"
    if not name.strip():
        return "is empty"
    if name.startswith("/") or ".." in PurePosixPath(name).parts:
        return "is not usable: FAST-HEP would make a folder of this name outside the build folder"
    if any(ord(char) < 32 or ord(char) == 127 for char in name):
        return "holds a control character"
    if size > _MAX_BYTES:
        return f"is too long for the name of a folder (more than {_MAX_BYTES} bytes)"
    if name == "." or str(PurePosixPath(name)) != name:
        return "is not the simplest form of this path: two names could mean the same folder"
    if name == "manifest.json":
        return "is the name of a file that FAST-HEP writes beside the datasets' folders"
    return None


def shell(words: Iterable[str | Path]) -> str:
    """Return ``words`` as one POSIX shell command in which each word keeps its exact value."""
    return shlex.join(str(word) for word in words)


def literal(value: str | int) -> str:
    """Return ``value`` as a Python literal in double quotes, as the Snakefile's formatter would."""
    if not isinstance(value, str):
        return repr(value)
    text = json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")  # for lone surrogates


def comment(text: str) -> str:
    """Return ``text`` so that it can stand in a comment or docstring of a Snakefile.

    Line breaks, quotes, backslashes and braces lose their meaning; the text is cut at 80
    characters.
    """
    plain = printable(text)
    for char in '"\\{}':
        plain = plain.replace(char, "'" if char == '"' else "?")
    return plain if len(plain) <= 80 else f"{plain[:77]}..."


def printable(text: str) -> str:
    """Return ``text`` without what a terminal would obey or turn around: a worker has sent it."""
    return "".join(char if char.isprintable() else "?" for char in text)
