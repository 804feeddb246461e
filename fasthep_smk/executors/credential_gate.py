"""Hold back the jobs of a run while a required credential has ended.

This is for the process of Snakemake, which runs in the build folder: its scheduler chooses no job
then, whatever the batch system, and looks again a little later. What runs goes on, and Ctrl-C ends
the run as usual. The user is told at once, also while the scheduler has nothing to choose. That
process is told which credentials are required, never what is in them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from fasthep_smk.config.credentials import Requirement
from fasthep_smk.credentials.required import required_of
from fasthep_smk.executors import logger_plugin
from fasthep_smk.flow import patches
from fasthep_smk.util.snakemake_types import Scheduler, job_scheduler

__all__ = ["Gate", "hold_jobs_back"]

#: Seconds for which a look at credentials that are valid is enough, and between two looks.
_TRUST, _PAUSE = 1.0, 2.0


class Gate:
    """Open as long as the credentials of a run are valid; ``tell`` is told of each that is not."""

    def __init__(
        self,
        required: Iterable[Requirement],
        tell: Callable[[str], None] = logger_plugin.problem,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._required = tuple(required)
        self._tell = tell
        self._clock = clock
        self._look_at = 0.0
        self._missing: set[str] = set()
        self._lock = threading.Lock()

    def is_open(self) -> bool:
        """Look at the credentials, but not too often."""
        with self._lock:
            if self._required and self._clock() >= self._look_at:
                self._look()
            return not self._missing

    def keep_looking(self) -> threading.Event:
        """Look every few seconds in a thread, until the event is set or the process ends."""
        over = threading.Event()
        if self._required:
            threading.Thread(target=self._repeat, args=(over,), daemon=True).start()
        return over

    def _repeat(self, over: threading.Event) -> None:
        while not over.wait(_PAUSE):
            self.is_open()

    def _look(self) -> None:
        from fasthep_smk.credentials.validity import lacking, renewed

        # What ends before the next look has ended for a job that would start now.
        missing = lacking(self._required, now=time.time() + _TRUST)
        for kind in missing.keys() - self._missing:
            self._tell(str(missing[kind]))
        back = [one.kind for one in self._required if one.kind in self._missing - missing.keys()]
        for line in renewed(back):
            self._tell(line)
        self._missing = set(missing)
        self._look_at = self._clock() + (0.0 if missing else _TRUST)


def hold_jobs_back() -> None:
    """Let Snakemake's scheduler choose no job while a credential has ended."""
    scheduler = job_scheduler()
    names = ("job_selector", "_schedule_reevalutation")
    if not all(hasattr(scheduler, name) for name in names):  # one is private: it may be gone
        return
    choose = scheduler.job_selector
    gate: Gate | None = None
    look_again_at = 0.0

    def job_selector(self: Scheduler, jobs: object) -> object:
        nonlocal gate, look_again_at
        if gate is None:
            gate = Gate(required_of(Path()))
            gate.keep_looking()
        if gate.is_open():
            return choose(self, jobs)
        # Each look is followed by the next: a job that ends in between must not start another row.
        if time.monotonic() >= look_again_at:
            look_again_at = time.monotonic() + _PAUSE
            self._schedule_reevalutation(_PAUSE)
        return set()

    patches.CREDENTIAL_GATE.make(scheduler, job_selector=job_selector)
