"""What squeue prints for us."""

from __future__ import annotations

__all__ = ["listed"]

_STATES = {"R": "RUNNING", "PD": "PENDING", "CG": "COMPLETING"}


def listed(*jobs: str, submitted: float = 0) -> str:
    """Return the lines of jobs, each given as ``ID|STATE|PARTITION|REASON|NAME|FOLDER``."""
    lines = []
    for one in jobs:
        job, state, partition, reason, name, folder = one.split("|", 5)
        told = [job, _STATES.get(state, state), reason, "0", "", partition, f"{submitted:.0f}"]
        lines.append("|".join([*told, name, folder]) + "|\n")
    return "".join(lines)
