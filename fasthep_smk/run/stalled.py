"""Why nothing happens: which pools jobs wait for, in the batch system's own words."""

from __future__ import annotations

from collections import Counter

from fasthep_smk import sites
from fasthep_smk.run.snakemake_output import Progress
from fasthep_smk.translate.profile import Placement

__all__ = ["reasons"]


def reasons(progress: Progress, placement: Placement) -> list[str]:
    """Return lines that say what a run waits for."""
    quiet = f"{progress.quiet:.0f} s without a finished job"
    if not progress.running:
        return [f"{quiet}: Snakemake has {progress.left} jobs to do and none under way"]
    under_way = ", ".join(
        f"{count} x {rule} (pool {_pool(rule, placement)!r})"
        for rule, count in progress.running.items()
    )
    lines = [f"{quiet}; under way: {under_way}; {progress.left} more to do"]
    busy: Counter[str] = Counter()
    for rule, count in progress.running.items():
        busy[_pool(rule, placement)] += count
    for pool, count in busy.items():
        workers = placement.workers.get(pool)
        if workers is not None and count >= workers and progress.left:
            lines.append(f"    pool {pool!r}: {count} of {workers} workers are busy")
    system = sites.system(placement.site.system)
    for item in system.waiting(progress.run):
        plural = "job waits" if item.count == 1 else "jobs wait"
        lines.append(f"    {item.count} {plural} in {item.where}: {item.reason}")
    return lines


def _pool(rule: str, placement: Placement) -> str:
    attempts = placement.attempts.get(rule)
    return attempts[0].pool if attempts else "default"
