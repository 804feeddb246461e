"""Who works on a build folder now, as its lock says."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from pathlib import Path
from typing import TypedDict

from fasthep_smk.storage import failures, layout
from fasthep_smk.util.documents import JsonObject

__all__ = ["MARK", "Holder", "holder", "is_orphan", "read_lock"]

#: The environment variable by which processes of a run are known.
MARK = "FASTHEP_SMK_RUN"


class Holder(TypedDict):
    """Who holds a build folder: a process of a host, and since when, for people."""

    host: str | None
    pid: int | None
    since: str | None


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
        if who.get("state", "ended") == "ended":
            return None
        orphan = is_orphan(who)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None  # it was killed
        except BlockingIOError:
            if orphan:
                who["pid"] = who.get("snakemake", who["pid"])
        except OSError:
            if orphan:
                return None
        return {"host": who.get("host"), "pid": who.get("pid"), "since": who.get("since")}
    finally:
        os.close(descriptor)


def is_orphan(who: JsonObject) -> bool:
    """Whether the holder's first process was killed, so that only its Snakemake is left."""
    pid = who.get("pid")
    here = who.get("host") == socket.gethostname()
    return here and isinstance(pid, int) and failures.born(pid) != who.get("born")


def read_lock(descriptor: int) -> JsonObject:
    """Return what stands in the lock that is open as ``descriptor``."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        content = json.loads(os.pread(descriptor, 4096, 0) or b"{}")
        if isinstance(content, dict):
            return content
    return {}
