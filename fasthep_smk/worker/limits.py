"""A job's limits, held by the job itself, so that it can say what it died of.

A batch system that enforces them kills silently, and one machine has none. Where the job does not
heed its time limit, who waits for it ends it (`job_end`).
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from fasthep_smk.util.errors import SmkError
from fasthep_smk.util.last_words import end_by
from fasthep_smk.util.threads import meanwhile
from fasthep_smk.util.units import format_bytes, format_duration

#: Seconds that a job gets to end by itself; compiled code does not hear the signal.
_GRACE = 5
#: Seconds between two looks at the memory.
_POLL = 0.05
#: Seconds of CPU that this process had taken when its job began.
_counted = 0.0


class TimeLimit(SmkError):
    """The job took longer than it may."""


class MemoryLimit(SmkError):
    """The job needed more memory than it asked for; ``used``: as it was seen at another attempt."""

    used: int | None = None


@contextmanager
def time_limit(seconds: int | None, pool: str | None = None) -> Iterator[None]:
    """Raise :class:`TimeLimit` in the body after ``seconds``.

    Soon after that the process is ended, also where the body has ended before.
    """
    if seconds is None:
        yield
        return
    left = max(1, math.ceil(seconds))
    end = time.monotonic() + left

    def stop(_number: int, _frame: FrameType | None) -> None:
        if (more := math.ceil(end - time.monotonic())) > 1:  # an operation has set an alarm
            signal.alarm(more)
            return
        raise TimeLimit(time_is_over(seconds, pool))

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(left)
    end_by(left + _GRACE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def time_is_over(seconds: int, pool: str | None) -> str:
    """Return what a job says that has taken longer than it may."""
    where = f" of pool {pool!r}" if pool else ""
    return f"the time limit{where}, {format_duration(seconds)}, has passed"


@contextmanager
def memory_limit(
    amount: int | None, pool: str | None, report: Callable[[MemoryLimit], None]
) -> Iterator[None]:
    """Raise :class:`MemoryLimit` in the body when the process holds more than ``amount`` bytes.

    ``report`` gets the error first, from another thread: the batch system may be quicker than the
    body is to hear of it.
    """
    if amount is None or not Path("/proc/self/statm").exists():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _error(amount, pool)

    def watch(over: threading.Event) -> None:
        while not over.wait(_POLL):
            if _resident() > amount:
                report(_error(amount, pool))
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
                if not over.wait(_GRACE):
                    os._exit(1)
                return

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        with meanwhile(watch):
            yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def peak_memory() -> int:
    """Return the most memory in bytes that this process and its ended children held."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(kind).ru_maxrss for kind in kinds) * 1024


def cpu_time() -> float:
    """Return the seconds of CPU that this process and its ended children took."""
    return round(_cpu() - _counted, 3)


def bytes_moved() -> tuple[int, int] | None:
    """Return what this process and its ended children have read and written until now, in bytes.

    As the kernel counts calls that read and write (proc(5), ``io``): files whatever holds them, the
    page cache or a disk, and pipes. ``None`` where it does not say.
    """
    try:
        text = Path("/proc/self/io").read_text(encoding="ascii")
        counts = dict(line.split(": ") for line in text.splitlines())
        return int(counts["rchar"]), int(counts["wchar"])
    except (OSError, ValueError, KeyError):
        return None


def count_from_here() -> None:
    """Let the process count anew: it has run another job before.

    Source: proc(5), ``clear_refs``. Where that is not to be had, the memory is that of the largest
    job until now.
    """
    global _counted
    _counted = _cpu()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _cpu() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(kind) for kind in kinds]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _error(amount: int, pool: str | None) -> MemoryLimit:
    where = f" of pool {pool!r}" if pool else ""
    return MemoryLimit(f"it needs more memory than the {format_bytes(amount)}{where}")


def _resident() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()
