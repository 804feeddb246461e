"""What each Snakemake process of ours does before it is Snakemake, whatever the batch system."""

from __future__ import annotations

import asyncio
import importlib
import threading
import time
from collections.abc import Iterable
from typing import Any

from fasthep_smk.executors import logger_plugin
from fasthep_smk.executors.credential_gate import hold_jobs_back
from fasthep_smk.executors.fallback import prepare_routes
from fasthep_smk.executors.next_attempt import skip_hopeless
from fasthep_smk.executors.snakemake_folders import keep_folders, lend_to_snakemake
from fasthep_smk.flow import patches

__all__ = ["prepare"]


def prepare() -> None:
    """Change in Snakemake what a run needs, and let it report to who started it."""
    prepare_routes()
    skip_hopeless()
    hold_jobs_back()
    lend_to_snakemake()
    keep_folders()
    _ask_once_for_sizes()
    _look_again_once()
    logger_plugin.register()


def _ask_once_for_sizes() -> None:
    """Let Snakemake's scheduler look once at each file that jobs read, not each time a job ends."""
    scheduler: Any = importlib.import_module("snakemake.scheduling.job_scheduler").JobScheduler

    async def update_input_sizes(self: Any, jobs: Iterable[Any]) -> None:
        known = self._input_sizes
        new = list({path for job in jobs for path in job.input if known.get(path) is None})
        there = await asyncio.gather(*[path.exists() for path in new])
        found = [path for path, is_there in zip(new, there, strict=True) if is_there]
        known.update(dict.fromkeys(new))
        sizes = await asyncio.gather(*[path.size() for path in found])
        known.update(zip(found, sizes, strict=True))

    patches.SIZES_ONCE.make(scheduler, update_input_sizes=update_input_sizes)


def _look_again_once() -> None:
    """Let Snakemake's scheduler plan one more look at its jobs at a time.

    It plans one a second after each start of jobs, and would wait for all of them at its end.
    """
    scheduler: Any = importlib.import_module("snakemake.scheduling.job_scheduler").JobScheduler
    lock = threading.Lock()
    is_planned, due = False, 0.0

    def later(self: Any, delay: float) -> None:
        nonlocal is_planned, due
        with lock:
            due = time.monotonic() + delay
            if not is_planned:
                is_planned = True
                begin(self, delay)

    def begin(self: Any, delay: float) -> None:
        timer = threading.Timer(delay, look, [self])
        timer.daemon = True
        timer.start()

    def look(self: Any) -> None:
        nonlocal is_planned
        with lock:
            left = due - time.monotonic()
            is_planned = left > 0
            if is_planned:
                begin(self, left)
        self._open_jobs.release()

    if hasattr(scheduler, "_schedule_reevalutation"):  # a private name: it may be gone
        patches.END_AT_ONCE.make(scheduler, _schedule_reevalutation=later)
