"""Whom folders belong to: what another user may have written is not trusted, and not run.

A build folder holds code (Snakefile, profile, worker), and says which files to move and remove. So
it must be the user's own, and no one else may write to it, unless the user says ``--trust-build``.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from fasthep_smk.util.errors import Finding, Findings
from fasthep_smk.util.names import shell

__all__ = ["check_build", "is_open", "is_own", "make_own", "problem_above"]

#: In a build folder, where code lies that a run believes.
_BELIEVED = ("", "smk", "smk/profile", "smk/tasks", ".snakemake")

#: Lower numbers are accounts of the system's (login.defs(5)).
_FIRST_USER = 1000


def check_build(build: Path, *, option: str) -> None:
    """Refuse a build folder that others have made or may write to; one that is not there is fine.

    ``option`` is how the user has named it.

    Raises:
        Findings: what is wrong with it, and the fix.
    """
    closed: set[Path] = set()
    for name in _BELIEVED:
        folder = build / name
        try:
            status = folder.stat()
        except OSError:
            continue  # what is in its place is looked at elsewhere
        if not status.st_mode & 0o077:
            closed.add(folder)  # no other user reaches what lies in it
        problem = None
        hint = "--trust-build, if you trust its author; or another --outdir"
        if status.st_uid not in (os.geteuid(), 0):
            problem = f"this build folder belongs to another user ({_user(status.st_uid)})"
        elif is_open(status) and folder.parent not in closed:
            problem = "others may write to this build folder"
            hint = f"{shell(['chmod', '-R', 'go-w', build])}; or {hint}"
        if problem is not None:
            raise Findings(
                [
                    Finding(
                        file=str(folder),
                        key=option,
                        problem=problem,
                        value=f"{_user(status.st_uid)}, mode {stat.S_IMODE(status.st_mode):04o}",
                        expected="a folder of yours that only you can write to: what is in it is "
                        "believed, and run in your name",
                        hint=hint,
                    )
                ]
            )


def is_open(status: os.stat_result) -> bool:
    """Whether others than its owner may write; a group of only the owner is no other."""
    mode = status.st_mode
    return bool(mode & stat.S_IWOTH) or (
        bool(mode & stat.S_IWGRP) and not _is_of_one(status.st_gid, status.st_uid)
    )


def is_own(entry: os.DirEntry[str] | Path) -> bool:
    """Whether a link to a folder was made by the user, and so was the folder."""
    found = (entry.stat(follow_symlinks=False), entry.stat())
    return all(one.st_uid == os.geteuid() for one in found) and not is_open(found[1])


def make_own(folder: Path, *, private: bool = False) -> None:
    """Make a folder that only its owner may write to, whatever the umask.

    With ``private``, no other user may enter it if the umask lets others write to what is made
    in it.

    Raises:
        OSError: it cannot be made.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        status = folder.stat()
        if is_open(status):
            folder.chmod(0o700 if private else stat.S_IMODE(status.st_mode) & ~0o022)
        return
    folder.mkdir(exist_ok=True)  # a file in its place is an error


def problem_above(path: Path) -> str | None:
    """Return what is wrong with the folders above a path: who could put another one in its place.

    Each must be the user's or of an account of the system's, such as a batch system's, and not be
    writable by others, unless it is sticky, as ``/tmp`` is.
    """
    for folder in _above(path):
        status = folder.stat()
        if status.st_uid not in (os.geteuid(), _unknown_user()) and status.st_uid >= _FIRST_USER:
            return f"{folder} belongs to another user ({_user(status.st_uid)})"
        if is_open(status) and not status.st_mode & stat.S_ISVTX:
            return f"others may rename what lies in {folder}: chmod +t it"
    return None


def _above(path: Path) -> Iterator[Path]:
    """Yield the folders above a path that exist, links followed: those of links, too."""
    seen: set[Path] = set()
    pending = [Path(os.path.abspath(path)).parent]  # noqa: PTH100 (links are followed below)
    while pending:
        folder = pending.pop()
        if folder in seen:
            continue
        seen.add(folder)
        if folder.is_symlink():
            pending.append(folder.parent / folder.readlink())
        elif folder.exists():
            yield folder
        if folder.parent != folder:
            pending.append(folder.parent)


@cache
def _unknown_user() -> int:
    """Return the number of users that a container does not know: root may be one there."""
    try:
        return int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 65534


def _is_of_one(group: int, user: int) -> bool:
    """Whether a group is a user's own, without other members."""
    try:
        found, name = grp.getgrgid(group), pwd.getpwuid(user).pw_name
    except KeyError:  # in a container, users of the host have numbers only
        return group == user
    return found.gr_name == name and set(found.gr_mem) <= {name}


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
