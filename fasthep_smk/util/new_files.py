"""Several new files in a folder: all of them or none, and nothing that is there is overwritten."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from fasthep_smk.util.ownership import make_own


class Occupied(Exception):
    """Files are there already that new ones would overwrite: ``paths``."""

    def __init__(self, paths: list[Path]) -> None:
        super().__init__(", ".join(map(str, paths)))
        self.paths = paths


@contextlib.contextmanager
def new_files(folder: Path) -> Iterator[Path]:
    """Yield an empty folder; what is put there moves to ``folder`` when the block succeeds.

    A new folder is one that others may not write to: modules in it are run.

    Raises:
        Occupied: one of the files exists there; nothing was moved.
        OSError: they cannot be written; those that were moved are removed again.
    """
    there = folder.exists()
    parent = folder if there else folder.absolute().parent
    created = _made(parent)
    stage = parent / f".{secrets.token_hex(8)}.tmp-{os.getpid()}"
    try:
        make_own(stage)
        yield stage
        if there:
            _move(stage, folder)
        else:
            stage.rename(folder)
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        _remove_empty(created)
        raise
    shutil.rmtree(stage, ignore_errors=True)


def occupied(folder: Path, names: list[str]) -> list[Path]:
    """Return what is in a folder already of what is to be written there."""
    paths = []
    for name in names:
        path = folder / name
        # A file or a link in the place of a folder that is needed is in the way, too.
        needed = [
            parent for parent in path.parents if parent != folder and parent.is_relative_to(folder)
        ]
        obstacles = [parent for parent in needed if os.path.lexists(parent) and not parent.is_dir()]
        paths += obstacles or ([path] if os.path.lexists(path) else [])
    return list(dict.fromkeys(paths))


def _move(stage: Path, folder: Path) -> None:
    names = sorted(str(path.relative_to(stage)) for path in stage.rglob("*") if path.is_file())
    if obstacles := occupied(folder, names):
        raise Occupied(obstacles)
    moved: list[Path] = []
    created: list[Path] = []
    try:
        for name in names:
            created += _made((folder / name).parent)
            (stage / name).rename(folder / name)
            moved.append(folder / name)
    except BaseException:
        for path in moved:
            path.unlink(missing_ok=True)
        _remove_empty(created)
        raise


def _made(folder: Path) -> list[Path]:
    """Make a folder with those above it; return which were made, the outermost first."""
    created: list[Path] = []
    for path in (*reversed(folder.parents), folder):
        if not path.is_dir():
            path.mkdir()
            created.append(path)
    return created


def _remove_empty(folders: list[Path]) -> None:
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            folder.rmdir()
