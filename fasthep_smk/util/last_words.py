"""What a process was about to do, in memory that its parent can read when it has died.

A process that a signal ends cannot say anything any more, and to write a file at each step would
cost more than the steps of a small job.
"""

from __future__ import annotations

import json
import mmap
import struct
import time

__all__ = ["LastWords", "say"]

_SIZE = mmap.PAGESIZE
_LENGTH = struct.Struct("=I")
_own: mmap.mmap | None = None


class LastWords:
    """Shared with a process that is forked next: what that says last; and when it began."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SIZE)
        self._began = time.monotonic()

    def begin(self) -> None:
        """Forget what was said, and count from here: the process begins something else."""
        _LENGTH.pack_into(self._memory, 0, 0)
        self._began = time.monotonic()

    def speak(self) -> None:
        """Be the process that says it, or one that this forks."""
        global _own
        _own = self._memory

    def heard(self) -> dict[str, str]:
        """Return what the process has said last; nothing if it died while it said it."""
        (length,) = _LENGTH.unpack_from(self._memory)
        try:
            found = json.loads(self._memory[_LENGTH.size : _LENGTH.size + length])
        except ValueError:
            return {}
        return {str(name): str(text) for name, text in found.items()}

    def seconds(self) -> float:
        """Return for how long this has been there, or since it began something else."""
        return time.monotonic() - self._began


def say(**words: str) -> None:
    """Let the parent know, in place of what was said before. What is too long is left out."""
    if _own is None:
        return
    data = json.dumps(words).encode()
    if len(data) > _SIZE - _LENGTH.size:
        data = b"{}"
    _LENGTH.pack_into(_own, 0, 0)  # a process that dies now has noted nothing
    _own[_LENGTH.size : _LENGTH.size + len(data)] = data
    _LENGTH.pack_into(_own, 0, len(data))
