"""What Linux does for a process when its parent or its children end.

Source: ``prctl(2)`` (https://man7.org/linux/man-pages/man2/prctl.2.html).
"""

from __future__ import annotations

import ctypes
import os
import signal

#: Libraries for linear algebra start a thread per core where nothing is said; a process with
#: threads cannot be forked safely.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "BLIS_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    # The allocator in pyarrow tidies up in a thread of its own.
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent is gone: another runs the job."""
    signal_at_parents_end(signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before
        os.kill(os.getpid(), signal.SIGKILL)


def signal_at_parents_end(number: int) -> None:
    """Let the kernel send this process a signal when its parent is gone; 0: none."""
    _prctl(_PR_SET_PDEATHSIG, number)


def keep_descendants() -> None:
    """Let all that this process starts stay below it: a batch system ends what it finds there."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def in_words(status: int) -> str:
    """Return the exit status of a process, negative for a signal, as people read it."""
    if status >= 0:
        return f"status {status}"
    meaning = signal.strsignal(-status) if -status < signal.NSIG else None
    return f"signal {-status} ({meaning.lower()})" if meaning else f"signal {-status}"


def _prctl(option: int, value: int) -> None:
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(option, int(value), 0, 0, 0)
