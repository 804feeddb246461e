"""Whether a stream is a terminal, on which lines are written over."""

from __future__ import annotations

import os
from typing import TextIO


def is_terminal(stream: TextIO) -> bool:
    """Whether lines of ``stream`` can be written over."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
