"""What FAST-HEP has compiled, moved into the build folder when nothing refuses the workflow.

A process that is killed meanwhile leaves files of two compilations: each call compiles anew.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from fasthep_smk.storage import layout
from fasthep_smk.util import files

__all__ = ["take_compiled"]

#: The folder of the plans.
_PLANS = "compile"
#: What some compilations write into it, and others do not.
_SOMETIMES = ("systematics.yaml", "worker_environment.json")


def take_compiled(aside: Path, build: Path) -> None:
    """Move what was compiled into ``aside`` to a build folder, which no other process works on.

    Of the files in ``compile/``, those of an earlier compilation go: FAST-HEP takes a plan by its
    place. They are known by their names; what else is there is the user's.

    Raises:
        OSError: it cannot be written there, or a folder is in the place of a file.
    """
    build.mkdir(parents=True, exist_ok=True)
    compiled = [path.relative_to(aside) for path in sorted(aside.rglob("*")) if path.is_file()]
    for name in compiled:
        if name.parts[0] == layout.SMK:
            files.write_text(build / name, (aside / name).read_text(encoding="utf-8"))
            continue
        with files.atomic_path(build / name, durable=False) as temporary:
            shutil.copyfile(aside / name, temporary)
    _remove_earlier(build, {name for name in compiled if name.parts[0] == _PLANS})


def _remove_earlier(build: Path, kept: set[Path]) -> None:
    """Remove the files of earlier compilations, and the folders of variations that are empty."""
    names = {path.name for path in kept}.union(_SOMETIMES)
    plans = build / _PLANS
    for path in [*plans.glob("*"), *plans.glob("*/*")]:
        if path.name in names and path.relative_to(build) not in kept and path.is_file():
            path.unlink()
            if path.parent != plans:
                with contextlib.suppress(OSError):  # something else is in it
                    path.parent.rmdir()
