"""An image of a build folder: what earlier runs left, as links to it.

In it one can find out what a run would do to the folder. What is moved, replaced or removed there
is a link, and the build folder stays as it is.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from fasthep_smk.storage import layout

#: What each call writes anew, or is not needed to find out what is done.
_NOT_NEEDED = frozenset(
    {
        *("compile", "graph", "debug", "execution", ".snakemake"),
        *(layout.LOCK, layout.STAGE, layout.DEPOT, layout.TASKS, layout.PLANS),
        *("smk/failures", "smk/profile", "smk/envs", "smk/worker", "smk/cache"),
    }
)
#: Its mode is set: a link would hand that on.
_COPIED = frozenset({layout.ENVIRONMENT})


def make_image(build: Path, image: Path) -> None:
    """Fill a folder with links to the files of a build folder, if there is one.

    Raises:
        OSError: there is no space for it.
    """
    image.mkdir(parents=True, exist_ok=True)
    if build.is_dir():
        _fill(str(build), str(image), "", frozenset())


def _fill(source: str, image: str, name: str, above: frozenset[tuple[int, int]]) -> None:
    try:
        status = os.stat(source)  # noqa: PTH116 (of many thousands; a path object takes longer)
        entries = list(os.scandir(source))
    except OSError:
        return  # it may not be read, or it is gone
    here = (status.st_dev, status.st_ino)
    if here in above:
        return  # a link to a folder above
    for entry in entries:
        inner = f"{name}/{entry.name}" if name else entry.name
        if inner in _NOT_NEEDED:
            continue
        path = f"{image}/{entry.name}"
        if entry.is_dir():
            os.makedirs(path, exist_ok=True)  # noqa: PTH103
            _fill(entry.path, path, inner, above | {here})
        elif inner in _COPIED:
            shutil.copyfile(entry.path, path)
        else:
            os.symlink(entry.path, path)  # noqa: PTH211
