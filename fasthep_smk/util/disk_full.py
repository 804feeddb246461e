"""A disk that is full: told from other errors, and said so that it can be fixed."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fasthep_smk.util.errors import Finding, SmkError, chain_of, refused_by_system
from fasthep_smk.util.units import about_bytes

_NUMBERS = (errno.ENOSPC, errno.EDQUOT)
_WORDS = tuple(os.strerror(number) for number in _NUMBERS)
#: What Python says when it has tried to write into each of them.
_NO_TEMPORARY = "No usable temporary directory"
#: What must fit for a disk not to count as full, in bytes.
_LEAST = 64 * 1024


class DiskFull(SmkError):
    """There is no space left where something of ours is to be written."""


@contextlib.contextmanager
def saying(folder: Path) -> Iterator[None]:
    """Raise :class:`DiskFull` instead of what writing into ``folder`` raises on a full disk."""
    try:
        yield
    except OSError as error:
        if not shown(error):
            raise
        raise DiskFull(str(finding(folder, error))) from error


def shown(error: BaseException | None) -> bool:
    """Whether a full disk, or a quota that is used up, is behind an error."""
    return any(
        (isinstance(cause, OSError) and cause.errno in _NUMBERS) or said(str(cause))
        for cause in (chain_of(error) if error else ())
    )


def told(error: OSError) -> str:
    """Return what to say about an error of the system that nothing else has explained."""
    if shown(error):
        return str(finding(temporary(), error))
    try:
        os.getcwd()  # noqa: PTH109
    except OSError:
        return (
            "the current folder was deleted, or cannot be entered\n"
            "    hint: change to a folder that exists, then run the same command again"
        )
    return str(refused_by_system(error))


def said(text: str) -> bool:
    """Whether a program says that the disk is full."""
    if _NO_TEMPORARY in text:
        return is_full(temporary()) or is_full(Path())
    return any(words in text for words in _WORDS)


def temporary() -> Path:
    """Return where programs put what they need for a short time; it may be full itself."""
    return Path(os.environ.get("TMPDIR") or "/tmp")


def is_full(folder: Path) -> bool:
    """Whether next to nothing can be written into a folder any more."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(_LEAST))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return error.errno in _NUMBERS  # the error that is looked into may be its context
    return False


def finding(folder: Path, error: BaseException | None = None) -> Finding:
    """Return what to say about a full disk; ``folder`` is where things of ours are written."""
    folder = _culprit(folder, error)
    quota = getattr(error, "errno", None) == errno.EDQUOT
    return Finding(
        file=str(folder),
        problem="the quota is used up" if quota else "the disk is full",
        value=_free(folder),
        hint="make space there, then run the same command again: finished jobs are kept",
    )


def _culprit(folder: Path, error: BaseException | None) -> Path:
    """Return the folder that is full: the error may be about another one than ours."""
    named = getattr(error, "filename", None)
    if isinstance(named, str) and Path(named).is_absolute() and Path(named).parent.is_dir():
        return folder if folder in Path(named).parents else Path(named).parent
    places = (folder, folder / ".snakemake", temporary())
    return next(filter(is_full, places), folder)


def _free(folder: Path) -> str:
    """Return how much is free, now that what was half-written is removed."""
    try:
        status = os.statvfs(folder)
    except OSError as error:
        return str(error.strerror)
    free = status.f_bavail * status.f_frsize
    text = f"{about_bytes(free)} of {about_bytes(status.f_blocks * status.f_frsize)} are free now"
    if status.f_files and not status.f_favail:
        text += f", but all of its {status.f_files} inodes are used"
    return text
