"""Who works on a build folder now, as its lock says.

A run holds its lock by flock. Where that is not shared between two mounts of one folder, or there
is none, its owner is looked for: on this machine by its process, on others by its signs of life.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import threading
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import BinaryIO

import msgspec

from fasthep_smk.storage import failures, layout
from fasthep_smk.util.shapes import ready

#: The environment variable by which processes of a run are known.
MARK = "FASTHEP_SMK_RUN"
#: Seconds between two signs of life of a run, and without any, after which it counts as gone.
_BEAT, SILENT = 5.0, 30.0


@dataclass(frozen=True)
class LockNote:
    """What stands in the lock of a build folder; ``None`` is what it does not say.

    ``state`` is that of the run, ``running`` or ``ended``; ``born`` is when its process started, as
    `failures.born` tells it, on the `machine`; ``snakemake`` is the process that shares the lock,
    if one does. ``mark`` is that of its processes (`MARK`).
    """

    state: str | None = None
    host: str | None = None
    machine: str | None = None
    pid: int | None = None
    born: int | None = None
    since: str | None = None
    snakemake: int | None = None
    snakemake_born: int | None = None
    mark: str | None = None

    @property
    def is_here(self) -> bool:
        """Whether this process could see those of the run."""
        return self.machine == machine() if self.machine else self.host == socket.gethostname()

    @property
    def is_orphan(self) -> bool:
        """Whether the holder's first process was killed, so that only its Snakemake is left."""
        return self.is_here and self.pid is not None and failures.born(self.pid) != self.born

    def owner(self, descriptor: int) -> int | None:
        """Return the process of the run that lives here and has the lock open, in other places.

        A number alone is not believed: it may be another process's, or anybody's text.
        ``descriptor`` is where we have the lock open.
        """
        if self.state == "running" and self.is_here:
            for pid, born in ((self.pid, self.born), (self.snakemake, self.snakemake_born)):
                if pid and born and failures.born(pid) == born and _has_open(pid, descriptor):
                    return pid
        return None


def holder(build: Path) -> LockNote | None:
    """Return what the lock of a build folder says of who holds it now; change nothing.

    ``None`` if nobody does; ``pid`` is that of a process that lives. Where flock does not tell, a
    run of another machine is believed if it gave a sign of life a moment ago.
    """
    try:
        stream = _opened(build / layout.LOCK)
    except OSError:
        return None
    with stream:
        descriptor = stream.fileno()
        who = read_lock(descriptor)
        # An ended run's lock is not tried: a run that begins just now would meet us in it.
        if who.state in (None, "ended"):
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return replace(who, pid=who.snakemake or who.pid) if who.is_orphan else who
        except OSError:
            pass  # a file system without locks
        if who.is_here:
            pid = who.owner(descriptor)
            return None if pid is None else replace(who, pid=pid)
        lives = abs(time.time() - os.fstat(descriptor).st_mtime) < SILENT
        return who if lives and who.machine else None


def note_of(lock: Path) -> LockNote:
    """Return what stands in a lock now."""
    with contextlib.suppress(OSError), _opened(lock) as stream:
        return read_lock(stream.fileno())
    return LockNote()


def last_beat(lock: Path) -> int:
    """Return the time of a lock's last sign of life, in ns; 0 if it is gone."""
    with contextlib.suppress(OSError), _opened(lock) as stream:
        return os.fstat(stream.fileno()).st_mtime_ns
    return 0


def _opened(lock: Path) -> BinaryIO:
    """Open a lock, so that a network file system asks its server; no pipe is waited for."""
    return os.fdopen(os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")


def beat(lock: Path, over: threading.Event) -> None:
    """Give signs of life until it is ``over``: a lock's time of modification."""
    while not over.wait(_BEAT):
        with contextlib.suppress(OSError):
            os.utime(lock, follow_symlinks=False)


@cache
def machine() -> str:
    """Return what tells where the number of a process means the same one: kernel and namespace."""
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{kernel} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def _has_open(pid: int, descriptor: int) -> bool:
    """Whether a process has a lock of a build folder open, by a descriptor that is not ours."""
    folder = f"/proc/{pid}/fd"
    try:
        numbers = set(os.listdir(folder))  # noqa: PTH208
    except PermissionError:
        return True  # another user's
    except OSError:
        return False
    if pid == os.getpid():
        numbers.discard(str(descriptor))
    for number in numbers:
        with contextlib.suppress(OSError):
            if os.readlink(f"{folder}/{number}").endswith(f"/{layout.LOCK}"):  # noqa: PTH115
                return True
    return False


def read_lock(descriptor: int) -> LockNote:
    """Return what stands in the lock that is open as ``descriptor``."""
    with contextlib.suppress(OSError, ValueError, RecursionError, msgspec.ValidationError):
        return msgspec.convert(json.loads(os.pread(descriptor, 4096, 0)), ready(LockNote))
    return LockNote()


def mark(descriptor: int) -> dict[str, str]:
    """Return the environment variable by which processes of a run on this folder are known."""
    status = os.fstat(descriptor)
    return {MARK: f"{status.st_dev}:{status.st_ino}"}


def locks_of_snakemake(build: Path) -> list[Path]:
    """Return the files by which Snakemake says that it works on the folder, or did when it died."""
    return list((build / ".snakemake" / "locks").glob("*"))
