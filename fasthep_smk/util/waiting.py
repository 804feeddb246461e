"""Wait for something that has to be looked at again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_Seen = TypeVar("_Seen")


def until(
    look: Callable[[], _Seen],
    *,
    seconds: float,
    pause: float,
    enough: Callable[[_Seen], bool] = bool,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> _Seen:
    """Look once, and again after each pause, until that is enough or time is over.

    Returns what was seen last: enough, or not in that many ``seconds``. ``pause`` is in seconds,
    too. ``enough`` tells by what was seen; without, whatever is true is enough.
    """
    end = clock() + seconds
    while not enough(seen := look()) and clock() < end:
        sleep(pause)
    return seen
