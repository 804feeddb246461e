"""Finished jobs whose results are gone: they have to run again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from fasthep_smk.plan.rules import Rule
from fasthep_smk.products import RECORD

__all__ = ["forget_lost_results"]


def forget_lost_results(rules: Iterable[Rule], build: Path) -> list[str]:
    """Remove the records of jobs of which a plot, table, skim or report was deleted.

    Snakemake knows a job by its record only. Returns the folders of the jobs that run again.
    """
    lost: list[str] = []
    for rule in rules:
        for job in rule.jobs.values():
            record = build / job.folder / RECORD
            try:
                results = json.loads(record.read_text(encoding="utf-8")).get("results", [])
            except (OSError, ValueError, AttributeError):
                continue  # not run yet, or damaged: whoever reads it will say so
            if not all((build / result).exists() for result in results):
                record.unlink()
                lost.append(job.folder)
    return lost
