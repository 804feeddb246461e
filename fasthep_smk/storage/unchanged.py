"""A refused run changes nothing: what FAST-HEP's compiler has replaced until then is put back.

The compiler writes while it looks, and some things can be refused only after it: a variation that
does not exist, a branch that no file has. What lay in its folders before is copied, not renamed:
people may have files of their own there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from fasthep_smk.storage.obstacles import WRITTEN_FIRST

__all__ = ["unless_accepted"]

_NAMES = (*WRITTEN_FIRST, "smk/overlay.yaml")
_BEFORE = "smk/before"


@contextlib.contextmanager
def unless_accepted(build: Path) -> Iterator[None]:
    """Put back what was in the compiler's folders if the block ends with an exception.

    What a process that was killed has left is put back first.
    """
    before = build / _BEFORE
    if before.is_dir():
        _put_back(build, before)
    _keep(build, before)
    try:
        yield
    except OSError:
        raise  # the disk may be full, which is to be seen as it is: the next call puts back
    except BaseException:
        with contextlib.suppress(OSError):
            _put_back(build, before)
        raise
    shutil.rmtree(before, ignore_errors=True)


def _keep(build: Path, before: Path) -> None:
    """Copy what there is; the copy is complete when it has its name."""
    new = before.with_name(f"{before.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    if not before.parent.is_dir():
        return  # a new build folder
    new.mkdir()
    for name in _NAMES:
        path, copy = build / name, new / name
        if path.is_symlink():
            continue
        if path.is_dir():
            shutil.copytree(path, copy, symlinks=True)
        elif path.is_file():
            copy.parent.mkdir(exist_ok=True)
            shutil.copy2(path, copy)
    new.rename(before)


def _put_back(build: Path, before: Path) -> None:
    for name in _NAMES:
        path, copy = build / name, before / name
        if path.is_symlink():
            continue
        if path.is_dir():
            _remove_new(path, copy)
        elif path.is_file() and not copy.exists():
            path.unlink()
        if copy.is_dir():
            _move_back(copy, path)
        elif copy.is_file():
            copy.replace(path)
    shutil.rmtree(before, ignore_errors=True)


def _remove_new(folder: Path, copy: Path) -> None:
    """Remove what was not there before, the deepest first."""
    for parent, folders, names in os.walk(folder, topdown=False):
        was = copy / Path(parent).relative_to(folder)
        for name in names:
            if not os.path.lexists(was / name):
                Path(parent, name).unlink()
        for name in folders:
            if not (was / name).is_dir():
                with contextlib.suppress(OSError):
                    Path(parent, name).rmdir()
    if not copy.is_dir():
        with contextlib.suppress(OSError):
            folder.rmdir()


def _move_back(copy: Path, folder: Path) -> None:
    """Give files and folders the contents and times that they had."""
    for parent, _, names in os.walk(copy, topdown=False):
        place = folder / Path(parent).relative_to(copy)
        place.mkdir(parents=True, exist_ok=True)
        times = Path(parent).stat()
        for name in names:
            Path(parent, name).replace(place / name)
        os.utime(place, ns=(times.st_atime_ns, times.st_mtime_ns))
