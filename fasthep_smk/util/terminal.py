"""What can be shown on a stream: a terminal, on which lines are written over, or anything else."""

from __future__ import annotations

import os
from typing import TextIO

#: Goes back to the beginning of a line, and erases it.
ERASE = "\r\x1b[2K"


def is_terminal(stream: TextIO) -> bool:
    """Whether lines of ``stream`` can be written over."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def bar(share: float, width: int, stream: TextIO) -> str:
    """Return a bar of which a share, from 0 to 1, is done; in signs that ``stream`` can show."""
    done, left = "━─" if (stream.encoding or "").lower().startswith("utf") else "#-"
    many = min(width, int(width * share))
    return done * many + left * (width - many)
