"""Which credentials the jobs of a build folder require."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.storage.job_settings import read_requests

if TYPE_CHECKING:
    from fasthep_smk.config.credentials import Requirement


def required_of(build: Path) -> tuple[Requirement, ...]:
    """Return the credentials that the jobs of a build folder require."""
    try:
        requests = read_requests(build)
        entries = requests.get("credentials") or []
    except (OSError, ValueError):
        return ()
    if not entries:
        return ()
    # Imported when needed: most runs require none.
    from fasthep_smk.config.credentials import Requirement

    return tuple(Requirement.from_data(entry) for entry in entries)
