"""How long the jobs of earlier runs took."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from fasthep_smk.plan.rules import Rule
from fasthep_smk.reuse import store

__all__ = ["seconds"]

#: So many jobs of a rule are enough to know.
_SAMPLE = 25


def seconds(rules: Iterable[Rule], build: Path) -> dict[str, list[float]]:
    """Return the seconds that some finished jobs of each partition rule took; read only."""
    return {
        rule.name: [
            float(record["ended"]) - float(record["started"])
            for job in islice(rule.jobs.values(), _SAMPLE)
            if (record := store.read(build / job.folder)) is not None
        ]
        for rule in rules
        if rule.scope == "partition"
    }
