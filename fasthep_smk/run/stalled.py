"""Why nothing happens: which pools jobs wait for, in the batch system's own words."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path

from fasthep_smk import sites
from fasthep_smk.run.snakemake_output import Reader
from fasthep_smk.translate.profile import Placement
from fasthep_smk.util.threads import meanwhile


def telling(
    reader: Reader, placement: Placement, build: Path, patience: int
) -> AbstractContextManager[None]:
    """Say why nothing happens, when no job has ended for ``patience`` s; again after as long."""

    def watch(over: threading.Event) -> None:
        spoke = time.monotonic()
        while not over.wait(1):
            quiet_since = max(reader.last, spoke)
            if time.monotonic() - quiet_since < patience or not reader.jobs:
                continue
            for line in reasons(reader, placement, build):
                reader.say(line)
            spoke = time.monotonic()

    return meanwhile(watch, join=False)  # a batch system that is asked may take long to answer


def reasons(reader: Reader, placement: Placement, build: Path) -> list[str]:
    """Return lines that say what a run waits for.

    On a cluster, a job that was submitted is under way for Snakemake, though it may wait.
    """
    quiet = f"{time.monotonic() - reader.last:.0f} s without a finished job"
    running, tally = reader.tally.running, reader.tally
    left = max(tally.total - tally.done - len(running), 0)
    if not running:
        return [f"{quiet}: Snakemake has {left} jobs to do and none running"]
    placed = Counter(
        (rule, reader.moved.get(number) or _pool(rule, placement))
        for number, rule in running.items()
    )
    parts = [f"{count} x {rule} (pool {pool!r})" for (rule, pool), count in placed.items()]
    lines = [f"{quiet}; running or queued: {', '.join(parts)}; {left} more to do"]
    busy: Counter[str] = Counter()
    for (_, pool), count in placed.items():
        busy[pool] += count
    for pool, count in busy.items():
        workers = placement.workers.get(pool)
        if workers is not None and count >= workers and left:
            lines.append(f"    pool {pool!r}: {workers} of {workers} workers are busy")
    queued = sites.system(placement.site.system).queued(build) or ()
    counts = Counter((job.where, job.reason) for job in queued if job.state == "waiting")
    for (where, reason), count in counts.items():
        jobs = "job waits" if count == 1 else "jobs wait"
        lines.append(f"    {count} {jobs} in {where}: {reason}")
    return lines


def _pool(rule: str, placement: Placement) -> str:
    attempts = placement.attempts.get(rule)
    return attempts[0].pool if attempts else "default"
