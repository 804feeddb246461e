"""The files of an archive: where each goes, and where its content comes from."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fasthep_smk.util import files


@dataclass(frozen=True)
class Entry:
    """A file at ``target``: a copy of ``source``, these bytes, or a relative symbolic link."""

    target: str
    source: Path | None = None
    data: bytes = b""
    link: str | None = None
    executable: bool = False

    def read(self) -> bytes:
        """Return the content."""
        return self.data if self.source is None else self.source.read_bytes()

    def digest(self) -> str:
        """Return what tells the content from another one."""
        if self.link is not None:
            return f"link to {self.link}"
        mark = "x" if self.executable else "-"
        if self.source is not None:
            return f"{mark}{files.sha256_file(self.source)}"
        return f"{mark}{hashlib.sha256(self.data).hexdigest()}"


def text_entry(target: str, text: str, *, executable: bool = False) -> Entry:
    """Return an entry that holds this text."""
    return Entry(target, data=text.encode("utf-8"), executable=executable)


def is_skipped(name: str) -> bool:
    """Whether a folder of this name is never packed: what Python makes again."""
    return name == "__pycache__"


def walk(
    source: Path, target: str, *, skip: Callable[[str], bool] = lambda _: False
) -> Iterator[Entry]:
    """Yield the files of a folder, or the file that ``source`` is; by name, below ``target``.

    ``skip`` gets the path of each relative to ``source``. Links inside the folder stay links,
    others become what they point to.
    """
    if source.is_dir():
        yield from _walk(source, source.resolve(), "", target, skip, (source.resolve(),))
    elif source.is_file():
        yield _file(source, target)


def _walk(
    folder: Path,
    top: Path,
    inside: str,
    target: str,
    skip: Callable[[str], bool],
    seen: tuple[Path, ...],
) -> Iterator[Entry]:
    for item in sorted(os.scandir(folder), key=lambda item: os.fsencode(item.name)):
        relative = f"{inside}{item.name}"
        if is_skipped(item.name) or skip(relative):
            continue
        path, goal = Path(item.path), f"{target}/{relative}"
        if item.is_symlink():
            real = path.resolve()
            if not real.exists():
                continue
            if real.is_relative_to(top) and not path.readlink().is_absolute():
                yield Entry(goal, link=str(path.readlink()))
            elif real.is_dir():
                if real not in seen:
                    yield from _walk(path, top, f"{relative}/", target, skip, (*seen, real))
            elif real.is_file():
                yield _file(path, goal)
        elif item.is_dir():
            yield from _walk(path, top, f"{relative}/", target, skip, seen)
        elif item.is_file():
            yield _file(path, goal)


def _file(path: Path, target: str) -> Entry:
    return Entry(target, path, executable=bool(path.stat().st_mode & 0o100))
