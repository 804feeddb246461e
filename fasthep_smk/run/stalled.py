"""Why nothing happens: which pools jobs wait for, in the batch system's own words."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from fasthep_smk import sites
from fasthep_smk.run.snakemake_output import Progress, Reader
from fasthep_smk.sites import Queued
from fasthep_smk.translate.profile import Placement
from fasthep_smk.util.threads import meanwhile


def telling(
    reader: Reader, reasons: Callable[[Progress], list[str]], patience: int
) -> AbstractContextManager[None]:
    """Say why nothing happens, when no job has ended for ``patience`` s; again after as long."""

    def watch(over: threading.Event) -> None:
        spoke = time.monotonic()
        while not over.wait(1):
            quiet_since = max(reader.last, spoke)
            if time.monotonic() - quiet_since < patience or not reader.jobs:
                continue
            for line in reasons(reader.progress()):
                reader.say(line)
            spoke = time.monotonic()

    return meanwhile(watch, join=False)  # a batch system that is asked may take long to answer


def reasons(progress: Progress, placement: Placement) -> list[str]:
    """Return lines that say what a run waits for."""
    quiet = f"{progress.quiet:.0f} s without a finished job"
    if not progress.running:
        return [f"{quiet}: Snakemake has {progress.left} jobs to do and none running"]
    placed = Counter({(rule, _pool(rule, placement)): n for rule, n in progress.running.items()})
    for (rule, pool), count in progress.moved.items():
        placed[rule, _pool(rule, placement)] -= count
        placed[rule, pool] += count
    placed = +placed
    parts = [f"{count} x {rule} (pool {pool!r})" for (rule, pool), count in placed.items()]
    lines = [f"{quiet}; running or queued: {', '.join(parts)}; {progress.left} more to do"]
    busy: Counter[str] = Counter()
    for (_, pool), count in placed.items():
        busy[pool] += count
    for pool, count in busy.items():
        workers = placement.workers.get(pool)
        if workers is not None and count >= workers and progress.left:
            lines.append(f"    pool {pool!r}: {workers} of {workers} workers are busy")
    system = sites.system(placement.site.system)
    return lines + [f"    {line}" for line in waiting(system.queued(Path(progress.run)))]


def waiting(queued: Iterable[Queued] | None) -> list[str]:
    """Return how many jobs wait, where, and why, in the batch system's own words."""
    counts = Counter((job.where, job.reason) for job in queued or () if job.state == "waiting")
    return [
        f"{count} {'job waits' if count == 1 else 'jobs wait'} in {where}: {reason}"
        for (where, reason), count in counts.items()
    ]


def _pool(rule: str, placement: Placement) -> str:
    attempts = placement.attempts.get(rule)
    return attempts[0].pool if attempts else "default"
