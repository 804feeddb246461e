"""Hold back the jobs of a run while a required credential has ended.

This is for the process of Snakemake, which runs in the build folder: its scheduler chooses no job
then, whatever the batch system, and looks again a little later. What runs goes on, and Ctrl-C ends
the run as ever. That process is told which credentials are required, never what is in them.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fasthep_smk.credentials.required import required_of

__all__ = ["Gate", "hold_jobs_back"]

#: For so many seconds a look at credentials that are valid is enough, and at those that are not.
_TRUST, _PAUSE = 1.0, 2.0


class Gate:
    """Open as long as the credentials of a run are valid."""

    def __init__(self, required: tuple[Any, ...], clock: Callable[[], float] = time.monotonic):
        self._required = required
        self._clock = clock
        self._look_at = 0.0
        self._why = ""

    def is_open(self) -> bool:
        """Look at the credentials, but not too often."""
        if self._required and self._clock() >= self._look_at:
            self._look()
        return not self._why

    def _look(self) -> None:
        from fasthep_smk.credentials.validity import lacking

        # What ends before the next look has ended for a job that would start now.
        missing = lacking(self._required, now=time.time() + _TRUST)
        why = "; ".join(map(str, missing.values()))
        if bool(why) != bool(self._why):
            print(why or "the credentials were renewed: jobs go on", flush=True)
        self._why = why
        self._look_at = self._clock() + (0.0 if why else _TRUST)


def hold_jobs_back() -> None:
    """Let Snakemake's scheduler choose no job while a credential has ended."""
    scheduler: Any = importlib.import_module("snakemake.scheduling.job_scheduler").JobScheduler
    names = ("job_selector", "_schedule_reevalutation")
    if not all(hasattr(scheduler, name) for name in names):  # one is private: it may be gone
        return
    choose = scheduler.job_selector
    gate: Gate | None = None
    look_again_at = 0.0

    def job_selector(self: Any, jobs: Any) -> Any:
        nonlocal gate, look_again_at
        gate = gate or Gate(required_of(Path()))
        if gate.is_open():
            return choose(self, jobs)
        # Each look is followed by the next: a job that ends in between must not start another row.
        if time.monotonic() >= look_again_at:
            look_again_at = time.monotonic() + _PAUSE
            self._schedule_reevalutation(_PAUSE)
        return set()

    scheduler.job_selector = job_selector
