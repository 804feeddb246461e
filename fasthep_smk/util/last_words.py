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

__all__ = ["LastWords", "end_by", "say", "say_also"]

_SIZE = mmap.PAGESIZE
_LENGTH = struct.Struct("=I")
#: At the end of the memory: until when, on the clock that never goes back and all processes share.
_END = struct.Struct("=d")
_ROOM = _SIZE - _LENGTH.size - _END.size
_own: mmap.mmap | None = None


class LastWords:
    """Shared with a process that is forked next: what that says last, and until when it lives."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SIZE)
        self.begin()

    def begin(self) -> None:
        """Forget what was said: the process begins something else."""
        _LENGTH.pack_into(self._memory, 0, 0)
        _END.pack_into(self._memory, _SIZE - _END.size, math.inf)

    def speak(self) -> None:
        """Be the process that says it, or one that this forks."""
        global _own
        _own = self._memory

    def heard(self) -> dict[str, str]:
        """Return what the process has said last; nothing if it died while it said it."""
        return _heard(self._memory)

    def is_over(self) -> bool:
        """Whether the process may live no longer."""
        (end,) = _END.unpack_from(self._memory, _SIZE - _END.size)
        return bool(time.monotonic() >= end)


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
        _END.pack_into(_own, _SIZE - _END.size, time.monotonic() + seconds)


def _heard(memory: mmap.mmap) -> dict[str, str]:
    (length,) = _LENGTH.unpack_from(memory)
    try:
        found = json.loads(memory[_LENGTH.size : _LENGTH.size + length])
    except ValueError:
        return {}
    return {str(name): str(text) for name, text in found.items()}
