"""Waiting for what processes do, and finding those that work somewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["until", "working_in"]


def until(condition: Callable[[], Any], seconds: float = 90) -> Any:
    """Wait until a condition holds, and return what it has returned then."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
    return found


def working_in(folder: Path, word: bytes = b"fasthep_smk") -> list[int]:
    """The processes that work in a folder or below it, and have a word in their command."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            here = (process / "cwd").resolve().is_relative_to(folder)
            dead = (process / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
            if here and not dead and word in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found
