"""Ask a batch system's own commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence

__all__ = ["ask", "number"]

_TIMEOUT = 20  # seconds: a scheduler that takes longer must not hold up a run


def ask(command: Sequence[str], variables: Mapping[str, str] | None = None) -> str | None:
    """Return what a command prints; ``None`` where it is missing, fails or does not answer.

    ``variables`` are added to its environment.
    """
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT,
            check=False,
            env={**os.environ, **(variables or {})},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def number(text: str) -> int:
    """Return the number that a word of a command's answer begins with; 0 if it is none."""
    found = re.match(r"\s*([0-9]{1,15})(?![0-9])", text)
    return int(found[1]) if found else 0
