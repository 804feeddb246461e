"""What is in the way of our files in a build folder."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from fasthep_smk.storage import layout
from fasthep_smk.util.errors import Finding, Findings
from fasthep_smk.util.system_errors import NO_FILE, finding, in_the_way, no_folder

__all__ = ["WRITTEN_BY_JOBS", "check_files", "check_folders", "make_way"]

#: Folders of ours, and of Snakemake's and FAST-HEP's compiler in the build folder.
_FOLDERS = (
    layout.SMK, layout.TASKS, layout.PLANS, layout.WORK, layout.OLD, layout.BUNDLES, layout.STAGE,
    layout.BENCHMARKS, layout.LOGS, "smk/cache", "smk/envs", "smk/profile", "smk/failures",
    ".snakemake", ".snakemake/locks", ".snakemake/incomplete", "compile", "graph", "render",
)  # fmt: skip
#: Where each job has files: what is in them has a suffix if, and only if, it is a file.
_BY_JOB = (layout.WORK, layout.BENCHMARKS, layout.LOGS)
#: Where there are files of each job.
_LARGE = frozenset({*_BY_JOB, layout.OLD, layout.BUNDLES, layout.STAGE, layout.DEPOT, "artifacts"})
#: What Snakemake and jobs write: folders, and single files.
WRITTEN_BY_JOBS = (
    *_BY_JOB,
    layout.RUN_LOG,
    layout.RUN_EVENTS,
    "artifacts",
    "reports",
    "run_summary.yaml",
)


def make_way(build: Path, folders: Iterable[str]) -> None:
    """Remove the empty folders that are where others write files, in ``folders`` of a build folder.

    Such a one has a suffix in its name, which folders that are meant to be there do not have.

    Raises:
        Findings: a folder where jobs have their files is not empty, or a file is where one belongs.
    """
    found: list[Finding] = []
    for name in folders:
        here = build / name
        entries = [(here, here.is_dir())] if here.suffix else _entries(here)
        for path, is_folder in entries:
            if is_folder and path.suffix:
                try:
                    path.rmdir()
                except OSError as error:
                    found += [finding(error)] if name in _BY_JOB else []  # else it may be one
            elif name in _BY_JOB and not is_folder and not path.suffix:
                found.append(in_the_way(path, no_folder(path)))
    if found:
        raise Findings(found)


def _entries(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Yield what is below a folder, the deepest first, and whether it is a folder."""
    for parent, folders, files in os.walk(folder, topdown=False):
        yield from ((Path(parent, name), True) for name in folders if "." in name)
        yield from ((Path(parent, name), False) for name in files if "." not in name)


def check_files(build: Path, names: Iterable[Path]) -> None:
    """Raise ``Findings`` for what is in the place of files of these names, or of their folders.

    An empty folder in the place of a file is not in the way: it is replaced.
    """
    found: dict[Path, Finding] = {}
    for name in names:
        path = build / name
        if path.is_dir() and not path.is_symlink() and any(path.iterdir()):
            found[path] = in_the_way(path, NO_FILE)
        for folder in (build / one for one in list(name.parents)[:-1]):
            if os.path.lexists(folder) and not folder.is_dir():
                found[folder] = in_the_way(folder, no_folder(folder))
    if found:
        raise Findings(list(found.values()))


def check_folders(build: Path) -> None:
    """Raise ``Findings`` for each folder of ours that something else is in the place of.

    And for each pipe, socket or device where files are: whoever opens it would be pending forever.
    """
    paths = [build / name for name in _FOLDERS]
    found = [
        in_the_way(path, no_folder(path))
        for path in paths
        if path.parent.is_dir() and os.path.lexists(path) and not path.is_dir()
    ]
    found += [
        in_the_way(path, "is a pipe, socket or device, which cannot be in a build folder")
        for path in _special(build)
    ]
    if found:
        raise Findings(found)


def _special(build: Path) -> Iterator[Path]:
    """Yield what is neither file, folder nor link, but for where each job has files.

    Those of jobs are replaced, or compared by their size first.
    """
    pending = [str(build)]
    while pending:
        folder = pending.pop()
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if os.path.relpath(entry.path, build) not in _LARGE:
                        pending.append(entry.path)
                elif not _may_be_opened(entry):
                    yield Path(entry.path)


def _may_be_opened(entry: os.DirEntry[str]) -> bool:
    """Whether opening it does not wait: a link may lead to /dev/null, too, or to nothing."""
    try:
        mode = entry.stat().st_mode
    except OSError:
        return True
    is_device = stat.S_ISCHR(mode) and entry.is_symlink()
    return is_device or stat.S_ISREG(mode) or stat.S_ISDIR(mode)
