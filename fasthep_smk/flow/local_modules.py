"""Where a workflow's own modules lie: in the folder that a run is started in, and beside it.

What others may write there is not run in the user's name, and nothing there stands in for a
package: these folders are searched last. What PYTHONPATH names is the user's own choice.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import stat
import sys
from collections.abc import Collection
from pathlib import Path

from fasthep_smk.errors import Finding, Findings
from fasthep_smk.flow import identity
from fasthep_smk.names import shell
from fasthep_smk.ownership import is_open

__all__ = ["find_local_modules", "folders", "why_not_found"]

#: Folders of this process's workflow that are not searched, and why.
_left_out: dict[Path, str] = {}


def folders(root: Path, workflow: Path) -> tuple[list[str], dict[Path, str]]:
    """Return the folders that are searched for modules, and why others are not.

    ``root`` is the folder that the run is started in. Whoever has written the workflow is trusted,
    and so are the modules of theirs that it names.
    """
    both = dict.fromkeys((root, workflow.resolve().parent))
    trusted = {os.geteuid(), 0}
    with contextlib.suppress(OSError):
        trusted.add(workflow.stat().st_uid)
    left_out = {folder: problem for folder in both if (problem := _problem(folder, trusted))}
    return [str(folder) for folder in both if folder not in left_out], left_out


def find_local_modules(root: Path, workflow: Path) -> list[str]:
    """Let a workflow's own modules be imported; return warnings.

    Raises:
        Findings: one has the name of a package of FAST-HEP's, which would be imported unasked.
    """
    found, left_out = folders(root, workflow)
    _left_out.clear()
    _left_out.update(left_out)
    _refuse_stand_ins([Path(folder) for folder in found if folder not in sys.path])
    sys.path.extend(folder for folder in found if folder not in sys.path)
    return [
        f"modules in {folder} are not imported, since {problem}: {_fix(folder)}"
        for folder, problem in left_out.items()
    ]


def why_not_found(module: str) -> str | None:
    """Return why a module that is there is not imported, and the fix; ``None`` if there is none."""
    for folder, problem in _left_out.items():
        if file := _file(folder, module.partition(".")[0]):
            return f"{file} is not looked at, since {problem}: {_fix(folder)}"
    return None


def _problem(folder: Path, trusted: Collection[int]) -> str | None:
    """Return in words why somebody who is not trusted may write to a folder, a sticky one too."""
    try:
        status = folder.stat()
    except OSError:
        return None  # it cannot be searched either
    if status.st_uid not in trusted:
        return "the folder belongs to another user"
    return "others may write to the folder" if is_open(status) else None


def _fix(folder: Path) -> str:
    own = folder.stat().st_uid == os.geteuid() and not folder.stat().st_mode & stat.S_ISVTX
    return shell(["chmod", "go-w", folder]) if own else "use a folder of your own"


def _file(folder: Path, name: str) -> Path | None:
    """Return what would be imported under a name, a folder without Python files too."""
    for place in (folder / name, *sorted(folder.glob(f"{name}.*"))):
        if place.is_dir() or place.suffix in (".py", ".pyc", ".so"):
            return place
    return None


def _refuse_stand_ins(searched: list[Path]) -> None:
    """Refuse modules with the names of FAST-HEP's packages: it imports those that it can find."""
    findings = [
        Finding(
            file=str(file),
            problem=f"has the name of a package of FAST-HEP's that is not installed: {name}",
            expected="modules of other names: FAST-HEP would import this one unasked",
            hint="rename it; or install the package that you mean, or name its folder in "
            "PYTHONPATH if this is the package itself",
        )
        for folder in searched
        for name in identity.PUBLISHED
        if (file := _file(folder, name)) and importlib.util.find_spec(name) is None
    ]
    if findings:
        raise Findings(findings)
