"""``pilots.json``: which jobs of a translation are run by pilots, and what a pilot asks for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

from fasthep_smk.config.requests import Attempt
from fasthep_smk.storage import layout
from fasthep_smk.util import files
from fasthep_smk.util.shapes import ready


@dataclass(frozen=True)
class Crew:
    """Pilots of one kind: at most ``most`` at a time, each with room for ``tasks`` jobs.

    ``attempt`` is what a pilot asks for; none starts a job later than ``until`` seconds after its
    own start.
    """

    name: str
    most: int
    tasks: int
    attempt: Attempt
    until: int | None = None


@dataclass(frozen=True)
class Crews:
    """All of them, by name; and for each rule the one of each attempt, or nothing.

    The crews of a pool in ``limited`` have its workers together. ``tokens`` are the resources that
    count the jobs of pools in which pilots run all jobs, by pool.
    """

    system: str
    by_name: Mapping[str, Crew] = field(default_factory=dict)
    of_rules: Mapping[str, list[str | None]] = field(default_factory=dict)
    limited: list[str] = field(default_factory=list)
    tokens: Mapping[str, str] = field(default_factory=dict)

    def of(self, rule: str, attempt: int) -> Crew | None:
        """Return the crew of a job at an attempt, the first being 1."""
        names = self.of_rules.get(rule)
        name = names[min(attempt, len(names)) - 1] if names else None
        return self.by_name[name] if name else None


def write(crews: Crews | None, build: Path) -> None:
    """Write the file of a translation; where nothing is run by pilots, remove it."""
    path = build / layout.PILOTS
    if crews and crews.by_name:
        files.write_text(path, json.dumps(asdict(crews), indent=1, default=dict) + "\n")
    else:
        path.unlink(missing_ok=True)


def read(build: Path) -> Crews:
    """Return what a translation has written."""
    return msgspec.json.decode((build / layout.PILOTS).read_bytes(), type=ready(Crews))
