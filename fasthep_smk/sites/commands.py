"""Ask a batch system's own commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_TIMEOUT = 20  # seconds: a scheduler that takes longer must not hold up a run


class Answer(NamedTuple):
    """What a command has printed, and whether it did what it was told."""

    well: bool
    text: str
    problem: str


def ask(
    command: Sequence[str], variables: Mapping[str, str] | None = None, *, seconds: int = _TIMEOUT
) -> str | None:
    """Return what a command prints; ``None`` where it is missing, fails or does not answer.

    ``variables`` are added to its environment. It has so many ``seconds``.
    """
    answer = order(command, variables=variables, seconds=seconds)
    return answer.text if answer.well else None


def order(
    command: Sequence[str],
    text: str = "",
    *,
    variables: Mapping[str, str] | None = None,
    seconds: int = _TIMEOUT,
) -> Answer:
    """Run a command that reads ``text``; ``variables`` are added to its environment."""
    if shutil.which(command[0]) is None:
        return Answer(False, "", f"there is no {command[0]} here")
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            env={**os.environ, **(variables or {})},
        )
    except subprocess.TimeoutExpired:
        return Answer(False, "", f"{command[0]} has not answered for {seconds} seconds")
    except OSError as error:
        return Answer(False, "", f"{command[0]}: {error}")
    return Answer(done.returncode == 0, done.stdout, " ".join(done.stderr.split()))


def number(text: str) -> int:
    """Return the number that a word of a command's answer begins with; 0 if it is none."""
    match = re.match(r"\s*([0-9]{1,15})(?![0-9])", text)
    return int(match[1]) if match else 0
