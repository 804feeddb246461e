"""Hold back the jobs of a run while a required credential has ended.

This is for the process of Snakemake, which runs in the build folder: its scheduler
(:mod:`fasthep_smk.executors.scheduler`) chooses no job then, whatever the batch system. What runs
goes on, and Ctrl-C ends the run as usual. The user is told at once, also while the scheduler has
nothing to choose. That process is told which credentials are required, never what is in them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.config.credentials import Kind, Requirement
from fasthep_smk.credentials.required import required_of
from fasthep_smk.executors import logger_plugin

if TYPE_CHECKING:
    from fasthep_smk.credentials.credential import Credential
    from fasthep_smk.util.snakemake_types import SnakemakeJob

__all__ = ["Gate", "gate_of_run"]

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
        self._begun_with: dict[int, Mapping[Kind, Credential]] = {}
        self._lock = threading.Lock()

    def is_open(self) -> bool:
        """Look at the credentials, but not too often."""
        with self._lock:
            if self._required and self._clock() >= self._look_at:
                self._look()
            return not self._missing

    def chosen(self, jobs: Iterable[SnakemakeJob]) -> None:
        """Take in which jobs start now, with the credentials that there are."""
        if self._required:
            self._begun_with |= dict.fromkeys((job.jobid for job in jobs), self._there())

    def others_come(self, job: SnakemakeJob) -> bool:
        """Whether a job may get other credentials: these have ended, or are renewed already.

        Those that are still valid would be refused again, at any number of attempts.
        """
        if not self._required:
            return False
        from fasthep_smk.credentials.validity import CLOCKS, lacking

        if lacking(self._required, now=time.time() + CLOCKS):
            return True
        return self._there() != self._begun_with.get(job.jobid)

    def _there(self) -> dict[Kind, Credential]:
        from fasthep_smk.credentials.checks import look

        return look(one.kind for one in self._required)

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


@cache
def gate_of_run() -> Gate:
    """Return the gate of the run of this process, in its build folder."""
    return Gate(required_of(Path()))
