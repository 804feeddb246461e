"""What the system refuses, told in one message: the file, what is wrong, the fix."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from fasthep_smk.util.errors import Finding, Findings

__all__ = ["NO_FILE", "clear", "finding", "fix", "in_the_way", "no_folder", "of_system"]

#: What to say of a folder that is in the place of a file.
NO_FILE = "is a folder; a file of this name is needed"
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


def of_system(error: OSError, build: Path) -> bool:
    """Whether an error is about what is written, or about this process: not what is read."""
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
        return in_the_way(path, NO_FILE)
    if path is not None and error.errno == errno.ENOENT and path.is_symlink():
        return in_the_way(path, "is a symbolic link to nothing; a file of this name is needed")
    if path is not None and error.errno == errno.ELOOP:
        return in_the_way(path, "is a symbolic link; a file of this name is needed")
    if path is not None and error.errno == errno.ENOTSUP:
        return in_the_way(path, "is a pipe or device; a file of this name is needed")
    if path is not None and error.errno in (errno.ENOTDIR, errno.EEXIST):
        nearest = (one for one in (path, *path.parents) if os.path.lexists(one))
        if (there := next(nearest, path)) and not there.is_dir():
            return in_the_way(there, no_folder(there))
    said = error.strerror or str(error)
    if error.errno in _REFUSED:
        return Finding(
            file=file,
            problem=f"cannot be written or read: {said}",
            hint=f"make it accessible, or choose another --outdir, {_AGAIN}",
        )
    return Finding(file=file, problem=said)


def in_the_way(path: Path, problem: str) -> Finding:
    """Return what to say of something that must be moved away."""
    return Finding(file=str(path), problem=problem, hint=f"move it away, {_AGAIN}")


def no_folder(path: Path) -> str:
    """Return what to say of something that is not the folder that it should be."""
    what = "a symbolic link to nothing" if path.is_symlink() and not path.exists() else "a file"
    return f"is {what}; a folder of this name is needed"


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
