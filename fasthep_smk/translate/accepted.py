"""What FAST-HEP has compiled, moved into the build folder when nothing refuses the workflow.

A call that is killed meanwhile leaves files of two compilations: the next one compiles anew.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath

from fasthep_smk.flow import upstream
from fasthep_smk.storage import layout
from fasthep_smk.util import files
from fasthep_smk.util.errors import Findings

#: The folder of the plans.
_PLANS = "compile"


def check_places(aside: Path, build: Path, sources: Collection[Path]) -> None:
    """Look whether what was compiled into ``aside`` can be moved to a build folder.

    ``sources`` are the workflow and all files that it is made of.

    Raises:
        Findings: one of the sources is in the place of a file.
    """
    for name in _compiled(aside):
        there = build / name
        source = next((path for path in sources if there.exists() and there.samefile(path)), None)
        if source is not None:
            raise Findings.one(
                "the workflow, or a file that it includes, would be overwritten",
                file=str(source),
                key="--outdir",
                value=str(build),
                expected=f"a build folder in which {name} is not part of the workflow",
                hint="choose another --outdir, such as 'build'",
            )


def take_compiled(aside: Path, build: Path) -> None:
    """Move what was compiled into ``aside`` to a build folder, which no other process works on.

    What an earlier compilation has written into ``compile/``, and this one has not, is removed:
    FAST-HEP takes a plan by its place. What else is there stays, as it is not ours.

    Raises:
        OSError: it cannot be written there.
    """
    build.mkdir(parents=True, exist_ok=True)
    compiled = _compiled(aside)
    plans = {str(name) for name in compiled if name.parts[0] == _PLANS}
    earlier = _noted(build)
    _note(build, earlier | plans)  # if we are killed, the next call knows of both
    for folder in {PurePosixPath(name).parent for name in earlier | plans}:
        if not _is_below_link(build, folder):
            upstream.clear_snapshot(build / folder)
    for name in compiled:
        if name.parts[0] == layout.SMK:
            files.write_text(build / name, (aside / name).read_text(encoding="utf-8"))
            continue
        with files.atomic_path(build / name, durable=False) as temporary:
            shutil.copyfile(aside / name, temporary)
    for old in earlier - plans:
        _remove(build, PurePosixPath(old))
    _note(build, plans)


def _compiled(aside: Path) -> list[Path]:
    return [path.relative_to(aside) for path in sorted(aside.rglob("*")) if path.is_file()]


def _noted(build: Path) -> set[str]:
    """Return what we have written into ``compile/``: nothing if that is not known for sure."""
    try:
        content = files.unseal(files.read_plain(build / layout.COMPILED))
        paths = [PurePosixPath(name) for name in content["files"]]
    except (OSError, files.Altered, KeyError, TypeError):
        return set()
    inside = (path for path in paths if len(path.parts) > 1 and ".." not in path.parts)
    return {str(path) for path in inside if path.parts[0] == _PLANS}


def _note(build: Path, names: Iterable[str]) -> None:
    files.write_text(build / layout.COMPILED, files.seal({"files": sorted(names)}))


def _remove(build: Path, name: PurePosixPath) -> None:
    """Remove a file, and its folder if nothing else is in it."""
    path = build / name
    if _is_below_link(build, name.parent) or not (path.is_file() or path.is_symlink()):
        return
    path.unlink()
    if name.parent.parts != (_PLANS,):
        with contextlib.suppress(OSError):
            path.parent.rmdir()


def _is_below_link(build: Path, folder: PurePosixPath) -> bool:
    """Whether a folder in ``compile/`` is in fact elsewhere; ``compile`` itself may be."""
    inner = [path for path in (folder, *folder.parents) if len(path.parts) > 1]
    return any((build / path).is_symlink() for path in inner)
