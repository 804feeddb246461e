"""How long the jobs of earlier runs took."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from fasthep_smk.plan.rules import Rule
from fasthep_smk.reuse import store

__all__ = ["seconds"]

#: So many jobs of a rule are enough to know.
_SAMPLE = 25


def seconds(rule: Rule, build: Path) -> list[float]:
    """Return the seconds that some finished jobs of a rule took; read only."""
    return [
        float(record["ended"]) - float(record["started"])
        for job in islice(rule.jobs.values(), _SAMPLE)
        if (record := store.read(build / job.folder)) is not None
    ]
