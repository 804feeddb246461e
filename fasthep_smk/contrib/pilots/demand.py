"""How many pilots the jobs of a crew are worth: a pilot is begun if it would have work.

To begin one costs its node a second of processor time, and it comes seconds later. By then short
jobs may be done that a pilot which is there, or is just about to be, takes one after the other.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

__all__ = ["Demand"]

#: Seconds of work that a pilot has to be worth, and those in which the first one comes.
_WORTH, _COMES = 3.0, 3.0
#: The least that a job is taken to last, and by which part of it a new one moves their mean.
_LEAST, _NEW = 0.1, 0.25


class Demand:
    """What is known of the jobs of a crew, whose pilots run ``tasks`` of them at a time.

    Any thread may ask.
    """

    def __init__(self, tasks: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._tasks, self._clock = tasks, clock
        self._lock = threading.Lock()
        self._under_way = 0
        #: Jobs that Snakemake could start, and has not handed out.
        self.ready = 0
        #: Seconds that a job takes, and since when none has ended that is under way.
        self._each, self._since = _LEAST, clock()
        self._is_first = True

    def begins(self) -> None:
        """Take in that a job was handed to the pilots."""
        with self._lock:
            if not self._under_way:
                self._since = self._clock()
            self._under_way += 1

    def ends(self, seconds: float | None = None) -> None:
        """Take in that a job has left the pilots; ``seconds``: it has run for so long."""
        with self._lock:
            self._under_way -= 1
            if seconds is not None:
                self._since = self._clock()
                part = 1.0 if self._is_first else _NEW
                self._each += part * (max(seconds, _LEAST) - self._each)
                self._is_first = False

    @property
    def pilots(self) -> int:
        """How many pilots there should be.

        Jobs are as long as those that have ended; or longer, if for some time none has: it is not
        known what other rules of the pool do, and a pilot may wait in the queue. Then all pilots
        that jobs could use are begun within seconds.
        """
        with self._lock:
            if not self._under_way:
                return 0
            silent = self._clock() - self._since - _COMES
            work = (self._under_way + self.ready) * max(self._each, silent)
            return max(1, math.ceil(work / (_WORTH * self._tasks)))
