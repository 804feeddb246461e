"""The profile of a project by which plain ``fasthep run`` finds the backend ``snakemake``.

FAST-HEP looks for profiles in ``.hepflow/profiles`` of the project first. Its own ones, ``basic``
and ``hep`` among them, all include ``registry``: a file of that name, which includes FAST-HEP's and
ours, adds the backend to each of them, and no workflow changes.
"""

from __future__ import annotations

import os
from pathlib import Path

from fasthep_smk.flow.profiles import expanded
from fasthep_smk.util import files
from fasthep_smk.util.errors import Findings

#: Relative to the project's folder.
PATH = Path(".hepflow", "profiles", "registry.yaml")
_OURS = "fasthep_smk:registry"
_TEXT = f"""\
# With this file, "fasthep run --backend snakemake" finds fasthep-smk. The file takes the place of
# FAST-HEP's profile "registry", which the profiles "basic", "hep" and "hep_debug" include.
# "fasthep-smk enable" wrote this file, and "fasthep-smk disable" removes it.
includes:
  - hepflow:registry
  - {_OURS}
"""


def enable(folder: Path) -> tuple[Path, bool]:
    """Write the profile into a project; return its path, and whether it was written now.

    Raises:
        Findings: there is no such folder, or a file of the user's is in the place.
    """
    if not folder.is_dir():
        raise Findings.one(
            "there is no such folder",
            key="FOLDER",
            value=str(folder),
            expected="the folder in which you call 'fasthep run'",
        )
    path = folder / PATH
    there = _content(path)
    if there is not None and there != _TEXT:
        if _OURS in expanded(["registry"], folder):
            return path, False
        raise Findings.one(
            "this is a profile of your own: fasthep-smk has not changed it",
            file=str(path),
            hint=f"add these to its includes:\n          - hepflow:registry\n          - {_OURS}",
        )
    if there is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_text(path, _TEXT)
    return path, there is None


def disable(folder: Path) -> Path | None:
    """Remove what :func:`enable` has written; return which file that was.

    Raises:
        Findings: the file was edited since, or is another one.
    """
    path = folder / PATH
    there = _content(path)
    if there is None:
        return None
    if there != _TEXT:
        raise Findings.one(
            "is not removed, because somebody has edited it or 'enable' did not write it",
            file=str(path),
            hint=f"delete it yourself, or remove {_OURS} from its includes",
        )
    path.unlink()
    return path


def _content(path: Path) -> str | None:
    """Return what is in the place of the profile, ``None`` if nothing is."""
    if not os.path.lexists(path):
        return None
    if path.is_symlink() or not path.is_file():
        return ""
    return path.read_text(encoding="utf-8", errors="replace")
