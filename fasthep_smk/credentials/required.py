"""Which credentials the jobs of a build folder require."""

from __future__ import annotations

from pathlib import Path

from fasthep_smk.config.credentials import Requirement
from fasthep_smk.storage.job_settings import read_requests


def required_of(build: Path) -> tuple[Requirement, ...]:
    """Return the credentials that the jobs of a build folder require."""
    try:
        entries = read_requests(build).get("credentials") or []
    except (OSError, ValueError):
        return ()
    return tuple(map(Requirement.from_data, entries))
