"""Which credentials the jobs of a build folder require."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.storage import layout

if TYPE_CHECKING:
    from fasthep_smk.config.credentials import Requirement
    from fasthep_smk.storage.job_settings import Requests

__all__ = ["required_of"]


def required_of(build: Path) -> tuple[Requirement, ...]:
    """Return the credentials that the jobs of a build folder require."""
    try:
        requests: Requests = json.loads((build / layout.REQUESTS).read_text(encoding="utf-8"))
        said = requests.get("credentials") or []
    except (OSError, ValueError):
        return ()
    if not said:
        return ()
    # Imported when needed: most runs require none.
    from fasthep_smk.config.credentials import Requirement

    return tuple(Requirement.from_data(one) for one in said)
