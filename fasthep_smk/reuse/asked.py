"""Stages whose jobs a user has asked to run again, because of what no program can see.

Each has a token, which is a part of its signature: its jobs and all that follows run once, and
their results are valid from then on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from fasthep_smk.storage import layout
from fasthep_smk.util import files


def tokens(build: Path, new: Mapping[str, str]) -> dict[str, str]:
    """Return the tokens of stages in a build folder, and the ``new`` ones."""
    try:
        earlier = json.loads((build / layout.RERUNS).read_text(encoding="utf-8"))
        return {**{str(stage): str(token) for stage, token in earlier.items()}, **new}
    except (OSError, ValueError, AttributeError):
        return dict(new)


def keep(build: Path, new: Mapping[str, str]) -> None:
    """Remember the tokens of stages for all later runs."""
    if new:
        files.write_text(build / layout.RERUNS, json.dumps(tokens(build, new), indent=1) + "\n")
