"""Who works on a build folder now, as its lock says."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from fasthep_smk.storage import failures, layout

__all__ = ["MARK", "Holder", "LockNote", "holder", "read_lock"]

#: The environment variable by which processes of a run are known.
MARK = "FASTHEP_SMK_RUN"


class Holder(TypedDict):
    """Who holds a build folder: a process of a host, and since when, for people."""

    host: str | None
    pid: int | None
    since: str | None


@dataclass(frozen=True)
class LockNote:
    """What stands in the lock of a build folder; ``None`` is what it does not say.

    ``state`` is that of the run, ``running`` or ``ended``; ``born`` is when its process started, as
    `failures.born` tells it; ``snakemake`` is the process that shares the lock, if one does.
    """

    state: str | None = None
    host: str | None = None
    pid: int | None = None
    born: int | None = None
    since: str | None = None
    snakemake: int | None = None

    @property
    def holder(self) -> Holder:
        """Who holds the lock, or held it last."""
        return {"host": self.host, "pid": self.pid, "since": self.since}

    @property
    def is_orphan(self) -> bool:
        """Whether the holder's first process was killed, so that only its Snakemake is left."""
        here = self.host == socket.gethostname()
        return here and self.pid is not None and failures.born(self.pid) != self.born


_TYPES = {"state": str, "host": str, "pid": int, "born": int, "since": str, "snakemake": int}


def holder(build: Path) -> Holder | None:
    """Return who holds a build folder now (``host``, ``pid``, ``since``); change nothing.

    ``None`` if nobody does. On a file system without locks a process of another host is believed.
    """
    try:
        descriptor = os.open(build / layout.LOCK, os.O_RDONLY)
    except OSError:
        return None
    try:
        who = read_lock(descriptor)
        # An ended run's lock is not tried: a run that begins just now would meet us in it.
        if who.state in (None, "ended"):
            return None
        orphan = who.is_orphan
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None  # it was killed
        except BlockingIOError:
            if orphan:
                who = replace(who, pid=who.snakemake or who.pid)
        except OSError:
            if orphan:
                return None
        return who.holder
    finally:
        os.close(descriptor)


def read_lock(descriptor: int) -> LockNote:
    """Return what stands in the lock that is open as ``descriptor``."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        content = json.loads(os.pread(descriptor, 4096, 0) or b"{}")
        if isinstance(content, dict):
            right = [name for name, kind in _TYPES.items() if isinstance(content.get(name), kind)]
            return LockNote(**{name: content[name] for name in right})
    return LockNote()
