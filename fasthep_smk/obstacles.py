"""What the system refuses: told in one message, with the fix; what is in the way of our files."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from fasthep_smk import layout
from fasthep_smk.errors import Finding, Findings

__all__ = [
    "WRITTEN_BY_JOBS",
    "WRITTEN_FIRST",
    "check_folders",
    "clear",
    "finding",
    "fix",
    "make_way",
    "of_system",
]

_AGAIN = "then run the same command again"
#: What the system answers where a process has reached a limit, with the fix.
_LIMITS = {
    errno.EFBIG: ("a file would be larger than this shell allows", "ulimit -f unlimited"),
    errno.EMFILE: ("more files are needed at a time than this shell allows", "ulimit -n 1024"),
    errno.ENFILE: ("this machine has too many open files", None),
    errno.EAGAIN: ("no more processes can be started", "ulimit -u unlimited"),
    errno.ENOMEM: ("there is not enough memory to start a process", None),
}
#: What it answers where something of another kind is in the place of a file or folder.
_WRONG_KIND = (errno.EISDIR, errno.ENOTEMPTY, errno.ENOTDIR, errno.EEXIST)
#: What it answers where nothing may be written.
_REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM)
#: Folders of ours, and of Snakemake's in the build folder.
_FOLDERS = (
    layout.SMK, layout.TASKS, layout.PLANS, layout.WORK, layout.OLD, layout.BUNDLES, layout.STAGE,
    layout.BENCHMARKS, layout.LOGS, "smk/cache", "smk/envs", "smk/profile", "smk/failures",
    ".snakemake", ".snakemake/locks", ".snakemake/incomplete",
)  # fmt: skip
#: Where each job has files: what is in them has a suffix if, and only if, it is a file.
_BY_JOB = (layout.WORK, layout.BENCHMARKS, layout.LOGS)
#: Where there are files of each job.
_LARGE = frozenset({*_BY_JOB, layout.OLD, layout.BUNDLES, layout.STAGE, layout.DEPOT, "artifacts"})
#: What FAST-HEP's compiler writes, and what Snakemake and jobs write: folders, and single files.
WRITTEN_FIRST = ("compile", "graph", "render")
WRITTEN_BY_JOBS = (*_BY_JOB, layout.RUN_LOG, "artifacts", "reports", "run_summary.yaml")


def of_system(error: OSError, build: Path) -> bool:
    """Tell whether an error is about what is written, or about this process: not what is read."""
    if error.errno in (*_LIMITS, errno.EROFS):
        return True
    return build in Path(os.fsdecode(error.filename or "")).parents


def fix(error: BaseException, build: Path) -> str | None:
    """Return what to do about an error of the system that a job has met, if that is known."""
    if not isinstance(error, OSError):
        return None
    named = Path(os.fsdecode(error.filename2 or error.filename or ""))
    ours = build in named.parents and error.errno in (*_WRONG_KIND, *_REFUSED, errno.ENOENT)
    return finding(error).hint if ours or error.errno in (errno.EFBIG, errno.EMFILE) else None


def finding(error: OSError) -> Finding:
    """Return what to say about an error of the system: the file, what is wrong, the fix."""
    name = error.filename2 or error.filename
    path = None if name is None else Path(os.fsdecode(name))
    file = None if path is None else str(path)
    if error.errno in _LIMITS:
        problem, fix = _LIMITS[error.errno]
        return Finding(file=file, problem=problem, hint=f"{fix}, {_AGAIN}" if fix else None)
    if path is not None and error.errno in (errno.EISDIR, errno.ENOTEMPTY):
        return _in_the_way(path, "a folder is where this file belongs")
    if path is not None and error.errno == errno.ENOENT and path.is_symlink():
        return _in_the_way(path, "a symbolic link to nothing is where this file belongs")
    if path is not None and error.errno == errno.ELOOP:
        return _in_the_way(path, "a symbolic link is where this file belongs")
    if path is not None and error.errno == errno.ENOTSUP:
        return _in_the_way(path, "a pipe or device is where this file belongs")
    if path is not None and error.errno in (errno.ENOTDIR, errno.EEXIST):
        nearest = (one for one in (path, *path.parents) if os.path.lexists(one))
        if (there := next(nearest, path)) and not there.is_dir():
            return _in_the_way(there, _no_folder(there))
    said = error.strerror or str(error)
    if error.errno in _REFUSED:
        return Finding(
            file=file,
            problem=f"cannot be written or read: {said}",
            hint=f"make it accessible, or choose another --outdir, {_AGAIN}",
        )
    return Finding(file=file, problem=said)


def _in_the_way(path: Path, problem: str) -> Finding:
    return Finding(file=str(path), problem=problem, hint=f"move it away, {_AGAIN}")


def _no_folder(path: Path) -> str:
    what = "a symbolic link to nothing" if path.is_symlink() and not path.exists() else "a file"
    return f"{what} is where this folder belongs"


def clear(path: Path) -> None:
    """Remove a file, or an empty folder in its place.

    Raises:
        Findings: the folder is not empty; what is in it is not ours.
    """
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    try:
        path.rmdir()
    except OSError as error:
        raise Findings([finding(error)]) from error


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
                found.append(_in_the_way(path, _no_folder(path)))
    if found:
        raise Findings(found)


def _entries(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Yield what is below a folder, the deepest first, and whether it is a folder."""
    for parent, folders, files in os.walk(folder, topdown=False):
        yield from ((Path(parent, name), True) for name in folders if "." in name)
        yield from ((Path(parent, name), False) for name in files if "." not in name)


def check_folders(build: Path) -> None:
    """Raise ``Findings`` for each folder of ours that something else is in the place of.

    And for each pipe, socket or device where files are: whoever opens it would wait for ever.
    """
    paths = [build / name for name in _FOLDERS]
    found = [
        _in_the_way(path, _no_folder(path))
        for path in paths
        if path.parent.is_dir() and os.path.lexists(path) and not path.is_dir()
    ]
    found += [
        _in_the_way(path, "a pipe, socket or device is where files belong")
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
    """Whether nobody waits who opens it: a link may lead to /dev/null, too, or to nothing."""
    try:
        mode = entry.stat().st_mode
    except OSError:
        return True
    is_device = stat.S_ISCHR(mode) and entry.is_symlink()
    return is_device or stat.S_ISREG(mode) or stat.S_ISDIR(mode)
