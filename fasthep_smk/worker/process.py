"""What a process that forks jobs, and one that is forked, must know about themselves."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

__all__ = ["LOG", "die_with_parent", "has_one_thread"]

#: Names the log of an attempt, which a job that succeeds removes.
LOG = "FASTHEP_SMK_LOG"
_PR_SET_PDEATHSIG = 1


def has_one_thread() -> bool:
    """Tell whether this process can be forked safely: no other thread may hold a lock."""
    return len(list(Path("/proc/self/task").iterdir())) == 1


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent is gone: somebody else runs the job."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it was gone before
        os.kill(os.getpid(), signal.SIGKILL)
