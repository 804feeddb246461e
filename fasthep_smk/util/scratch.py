"""Temporary folders: each with a lock that its owners hold, so that a dead one's can be removed.

A process that is killed leaves its folder behind. The one that makes the next in the same place
removes it: a folder of the same user, from the same machine, with a lock that is not held.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

#: Names the folder of a run to its Snakemake.
VARIABLE = "FASTHEP_SMK_SCRATCH"

_PREFIX = "fasthep-smk-"
#: Says on which machine the folder was made; locked as long as one of its owners lives.
_OWNER = ".fasthep-smk-owner"
#: Where a folder may lie whose path must be short, after the one for temporary files.
_SHORT = ("/tmp", "/var/tmp", "/dev/shm")
#: Bytes of a socket's address, with the zero at its end (unix(7)).
_ADDRESS = 108


class Scratch:
    """A temporary folder for this user only.

    ``owner`` is a descriptor: while a process has it open, the folder stays.
    """

    def __init__(self, kind: str = "", *, socket_name: str | None = None) -> None:
        """Make a folder; with ``socket_name``, one in which a socket of that name can be bound.

        Raises:
            OSError: there is no place for it.
        """
        self.path = _make(f"{_PREFIX}{kind}", socket_name)
        new = self.path / f"{_OWNER}.new"
        try:
            self.owner = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(self.owner, socket.gethostname().encode())
        except OSError:
            shutil.rmtree(self.path, ignore_errors=True)
            raise
        with contextlib.suppress(OSError):  # no locks here: no other process will remove it
            fcntl.flock(self.owner, fcntl.LOCK_EX)
            new.rename(self.path / _OWNER)  # locked before it can be seen

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.owner)


@contextlib.contextmanager
def scratch(kind: str = "") -> Iterator[Path]:
    """Yield a temporary folder, which goes with the block."""
    folder = Scratch(kind)
    try:
        yield folder.path
    finally:
        folder.remove()


def _make(prefix: str, socket_name: str | None) -> Path:
    parents = [tempfile.gettempdir()]
    if socket_name is not None:
        parents += [*_SHORT, os.environ.get("XDG_RUNTIME_DIR", "")]
        room = _ADDRESS - 1 - len(os.fsencode(f"/{prefix}xxxxxxxx/{socket_name}"))
        short = [parent for parent in parents if parent and len(os.fsencode(parent)) <= room]
        parents = short or parents[:1]
    for parent in parents[:-1]:
        with contextlib.suppress(OSError):
            return _make_in(parent, prefix)
    return _make_in(parents[-1], prefix)


def _make_in(parent: str, prefix: str) -> Path:
    _remove_left(Path(parent))
    return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))  # of mode 700


def _remove_left(parent: Path) -> None:
    """Remove the folders whose owners have died."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                with contextlib.suppress(OSError):
                    _remove_if_left(Path(entry.path))


def _remove_if_left(folder: Path) -> None:
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return
    owner = os.open(folder / _OWNER, os.O_RDWR | os.O_NOFOLLOW)
    try:
        if os.read(owner, 256).decode("utf-8", "replace") != socket.gethostname():
            return
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(owner)
