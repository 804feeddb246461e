"""What FAST-HEP has compiled, moved into the build folder when nothing refuses the workflow.

A process that is killed meanwhile leaves the old ``compile/``, the new one or none: each call
compiles anew, and removes what is left half-moved.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from fasthep_smk.storage import layout
from fasthep_smk.util import files

__all__ = ["take_compiled"]

#: Taken as a whole: nothing of an earlier compilation stays.
_WHOLE = "compile"


def take_compiled(aside: Path, build: Path) -> None:
    """Move what was compiled into ``aside`` to a build folder, which no other process works on.

    Raises:
        OSError: it cannot be written there.
    """
    build.mkdir(parents=True, exist_ok=True)
    for folder in {build, (build / _WHOLE).resolve().parent}:
        for left in folder.glob(f".{_WHOLE}.*"):
            files.remove(left)
    for path in sorted(aside.rglob("*")):
        name = path.relative_to(aside)
        if name.parts[0] == _WHOLE or path.is_dir():
            continue
        if name.parts[0] == layout.SMK:
            files.write_text(build / name, path.read_text(encoding="utf-8"))
            continue
        with files.atomic_path(build / name, durable=False) as temporary:
            shutil.copyfile(path, temporary)
    goal = (build / _WHOLE).resolve()  # it may lie on another disk
    new = goal.with_name(f".{_WHOLE}.new-{os.getpid()}")
    shutil.move(aside / _WHOLE, new)
    files.discard(goal)
    new.rename(goal)
