"""Files that texts name: parameters, globals, metadata of datasets, constants of an own module.

A text may be a path, a path with ``$VARIABLE``, ``~``, ``file://`` or ``:key`` behind it, a pattern
with ``*`` or ``{dataset}``, or a folder.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from fasthep_smk.util import files
from fasthep_smk.util.remote import local_path

#: Which operations (or modules of the user's) have written a file: by path, and identity then.
Made = Mapping[str, Mapping[str | None, Collection[str]]]

#: Bytes above which a file is identified by size, time and first bytes, not by its content.
_MAX_HASHED = 20_000_000
#: Of a pattern or a folder, at most this many files are looked at.
_MOST = 1000
_LONGEST = 1000
_FIELD = re.compile(r"\{[^{}]*\}")
_OF_SYSTEM = ("/usr", "/etc", "/lib", "/bin", "/sbin", "/proc", "/sys", "/dev", "/run", "/var")
#: A pattern begins with a name and has a suffix, as "sf/{dataset}.json" does.
_PATTERN = re.compile(r"[./~]*\w[\w./-]*[*?{]\S*\.\w+$")


def file_identity(
    path: str | Path, is_ignored: Callable[[str], bool] = lambda _: False
) -> str | None:
    """Return what identifies a file: its content, if that is large its size, time and first bytes.

    Of a folder, its list of names but for those whose paths are ignored. ``None`` if there is none.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 (a path object takes longer to make)
        if os.path.isdir(path):  # noqa: PTH112
            names = sorted(
                name
                for name in os.listdir(path)  # noqa: PTH208
                if not _is_passing(name) and not is_ignored(os.path.normpath(f"{path}/{name}"))
            )
            return f"folder:{files.digest_of(names)[:16]}"
        if not os.path.isfile(path):  # noqa: PTH113
            return "no regular file"
        if status.st_size > _MAX_HASHED:
            return f"{status.st_size}|{status.st_mtime_ns}|{files.head_of(Path(path))}"
        return files.sha256_file(Path(path))[:16]
    except OSError:
        return None


def _is_passing(name: str) -> bool:
    """Whether a name is that of a hidden, temporary or compiled file."""
    return name.startswith(".") or name.endswith("~") or name == "__pycache__"


class NamedFiles:
    """Looks up files that texts name.

    ``roots`` are the folders that relative paths start from, ``ignored`` patterns of files that are
    not looked at (``$HOME/.cache/**``), ``own`` folders of ours, which are not looked at either;
    ``made`` tells which files jobs have written: see :meth:`knowing`.
    """

    def __init__(
        self,
        roots: Iterable[Path],
        ignored: Iterable[str] = (),
        own: Iterable[Path] = (),
        made: Made | None = None,
    ) -> None:
        self.roots = tuple(dict.fromkeys(roots))
        self.ignored = tuple(ignored)
        self._own = tuple(os.path.abspath(path) for path in own)  # noqa: PTH100
        self._patterns = [
            os.path.normpath(os.path.join(root, os.path.expandvars(os.path.expanduser(pattern))))  # noqa: PTH111, PTH118
            for pattern in self.ignored
            for root in (self.roots or (Path(),))
        ]
        self.identity = cache(self.identity_now)
        self._known: dict[tuple[str, tuple[Path, ...]], tuple[tuple[str, Path], ...]] = {}
        self._made = made or {}

    def knowing(self, made: Made) -> NamedFiles:
        """Return one that knows which files jobs have written.

        Such a file is no input of the operation that writes it, until something else edits it.
        """
        return NamedFiles(self.roots, self.ignored, map(Path, self._own), made)

    def find(
        self, value: object, *, by: str | None = None, more_roots: Iterable[Path] = ()
    ) -> dict[str, Path]:
        """Return the existing files and folders that texts in ``value`` name, by their names.

        But for those that the operation ``by`` has made, or if that is ``None`` any one.
        """
        roots = (*self.roots, *more_roots)
        paths: dict[str, Path] = {}
        for text in _texts(value):
            if (text, roots) not in self._known:
                self._known[text, roots] = tuple(self._named(text, roots))
            pairs = self._known[text, roots]
            kept = [pair for pair in pairs if not self.is_made(os.path.normpath(pair[1]), by)]
            if len(kept) == len(pairs) or any(path.is_file() for _, path in kept):
                paths.update(kept)
        return paths

    def identities(
        self, value: object, *, by: str | None = None, more_roots: Iterable[Path] = ()
    ) -> list[str]:
        """Return ``file:NAME@IDENTITY`` for each file that :meth:`find` finds."""
        paths = self.find(value, by=by, more_roots=more_roots)
        return [f"file:{name}@{self.identity(path)}" for name, path in paths.items()]

    def identity_now(self, path: str | Path) -> str | None:
        """Return what identifies a file now; ``identity`` is what did when it was asked first."""
        return file_identity(path, self._is_no_input)

    def below(self, folder: str) -> Iterator[str]:
        """Yield a folder that a command names, and all below it, if files are there.

        Not of one that holds a root, temporary files or what belongs to the system.
        """
        roots = [*self.roots, Path(tempfile.gettempdir())]
        if not os.path.abspath(folder).startswith(_OF_SYSTEM) and self._is_inside(  # noqa: PTH100
            Path(folder), roots
        ):
            yield from (str(path) for _, path in self._below(folder, Path(folder)))

    def is_ignored(self, path: str) -> bool:
        """Whether a file is one that the workflow says to ignore, or lies in a folder of ours."""
        return any(path == folder or path.startswith(f"{folder}/") for folder in self._own) or any(
            fnmatchcase(path, pattern) or fnmatchcase(path, pattern.removesuffix("/**"))
            for pattern in self._patterns
        )

    def is_made(self, path: str, by: str | None = None) -> bool:
        """Whether a file is as a job has written it: with ``by``, one of this operation."""
        if path not in self._made:
            return False
        makers = self._made[path].get(file_identity(path), ())
        return bool(makers) if by is None else by in makers

    def _is_no_input(self, path: str) -> bool:
        return self.is_ignored(path) or self.is_made(path)

    def _named(self, text: str, roots: tuple[Path, ...]) -> Iterator[tuple[str, Path]]:
        plain = os.path.expanduser(os.path.expandvars(local_path(text) or text))  # noqa: PTH111
        heads = [text, *([plain] if plain != text else [])]  # a name may hold "$" itself
        heads += [plain[: at.start()] for at in re.finditer(":", plain)]
        for root in roots:
            for head in heads:
                path = root / head
                with contextlib.suppress(OSError, ValueError):
                    if path.is_file() and not self.is_ignored(os.path.normpath(path)):
                        yield text, path
                        return
                    if "/" in head and path.is_dir() and self._is_inside(path, roots):
                        yield from self._below(text, path)
                        return
        if _PATTERN.match(plain):
            yield from self._matching(_FIELD.sub("*", plain), roots)

    def _matching(self, pattern: str, roots: Iterable[Path]) -> list[tuple[str, Path]]:
        for root in roots:
            names = sorted(glob.glob(pattern, root_dir=root))[:_MOST]  # noqa: PTH207
            paths = [(name, root / name) for name in names]
            matches = [
                (name, path)
                for name, path in paths
                if path.is_file() and not self.is_ignored(os.path.normpath(path))
            ]
            if matches:
                return matches
        return []

    def _is_inside(self, folder: Path, roots: Iterable[Path]) -> bool:
        """Whether a folder holds none of the roots, nor a folder of ours."""
        place = os.path.abspath(folder)  # noqa: PTH100
        others = [os.path.abspath(root) for root in roots] + list(self._own)  # noqa: PTH100
        return not any(f"{other}/".startswith(f"{place.rstrip('/')}/") for other in others)

    def _below(self, text: str, folder: Path) -> Iterator[tuple[str, Path]]:
        """Yield a folder and the files below it; nothing if only ignored files lie there."""
        if self.is_ignored(os.path.normpath(folder)):
            return
        pairs = list(self._all_below(text, folder))
        if any(path.is_file() for _, path in pairs):
            yield text, folder
            yield from pairs

    def _all_below(self, text: str, folder: Path) -> Iterator[tuple[str, Path]]:
        count = 0
        for place, folders, names in os.walk(folder):
            folders[:] = sorted(name for name in folders if not _is_passing(name))
            yield from (
                (f"{text.rstrip('/')}/{Path(place, f).relative_to(folder)}", Path(place, f))
                for f in folders
            )
            for name in sorted(name for name in names if not _is_passing(name)):
                count += 1
                path = Path(place, name)
                if count > _MOST:
                    return
                if not self.is_ignored(os.path.normpath(path)):
                    yield f"{text.rstrip('/')}/{path.relative_to(folder)}", path


def _texts(value: object) -> Iterator[str]:
    """Yield the texts in a value that can be names of files."""
    if isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str) and 0 < len(value) < _LONGEST and value.isprintable():
        yield value
