"""What a process is about to do, and until when it may live, in memory that its parent can read.

A process that a signal ends cannot say anything any more, and to write a file at each step would
cost more than the steps of a small job.
"""

from __future__ import annotations

import json
import math
import mmap
import struct
import time

_SIZE = mmap.PAGESIZE
_LENGTH = struct.Struct("=I")
#: At the end of the memory: until when, on the clock that never goes back and all processes share.
_END = struct.calcsize("d")
_ROOM = _SIZE - _LENGTH.size - _END
_own: mmap.mmap | None = None


def _end_in(memory: mmap.mmap) -> memoryview[float]:
    """Return the place of that number, which is read and written at once.

    ``struct`` writes zeros first: who reads then would take the time for over.
    """
    return memoryview(memory)[_SIZE - _END :].cast("d")


class LastWords:
    """Shared with a process that is forked next: what that says last, and until when it lives."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SIZE)
        self.begin()

    def begin(self) -> None:
        """Forget what was said: the process begins something else."""
        _LENGTH.pack_into(self._memory, 0, 0)
        _end_in(self._memory)[0] = math.inf

    def speak(self) -> None:
        """Be the process that says it, or one that this forks."""
        global _own
        _own = self._memory

    def heard(self) -> dict[str, str]:
        """Return what the process has said last; nothing if it died while it said it."""
        return _heard(self._memory)

    def is_over(self) -> bool:
        """Whether the process may live no longer."""
        return bool(time.monotonic() >= _end_in(self._memory)[0])


def say(**words: str) -> None:
    """Let the parent know, in place of what was said before. What is too long is left out."""
    if _own is None:
        return
    data = json.dumps(words).encode()
    if len(data) > _ROOM:
        data = b"{}"
    _LENGTH.pack_into(_own, 0, 0)  # a process that dies now has noted nothing
    _own[_LENGTH.size : _LENGTH.size + len(data)] = data
    _LENGTH.pack_into(_own, 0, len(data))


def say_also(**words: str) -> None:
    """Let the parent know this, too."""
    if _own is not None:
        say(**{**_heard(_own), **words})


def end_by(seconds: float) -> None:
    """Let the parent end this process if it lives in so many seconds; it counts from here again."""
    if _own is not None:
        _end_in(_own)[0] = time.monotonic() + seconds


def _heard(memory: mmap.mmap) -> dict[str, str]:
    (length,) = _LENGTH.unpack_from(memory)
    try:
        words = json.loads(memory[_LENGTH.size : _LENGTH.size + length])
    except ValueError:
        return {}
    return {str(name): str(text) for name, text in words.items()}
