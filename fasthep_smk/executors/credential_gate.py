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

from fasthep_smk.config.credentials import CredentialKind, Requirement
from fasthep_smk.credentials.required import required_of
from fasthep_smk.executors import reporting

if TYPE_CHECKING:
    from fasthep_smk.credentials.credential import Credential
    from fasthep_smk.util.snakemake_types import SnakemakeJob

#: Seconds between two looks. What ends before the next but one has ended for who would start now.
PAUSE = 2.0


class Gate:
    """Open as long as the credentials of a run are valid; ``tell`` is told of each that is not.

    Who asks waits for no look: that may start a program.
    """

    def __init__(
        self, required: Iterable[Requirement], tell: Callable[[str], None] = reporting.problem
    ) -> None:
        self._required = tuple(required)
        self._tell = tell
        self._missing: set[str] = set()
        self._there: Mapping[CredentialKind, Credential] = {}
        self._margin = 2 * PAUSE
        self._lock = threading.Lock()
        self._begun_with: dict[int, Mapping[CredentialKind, Credential]] = {}

    def is_open(self) -> bool:
        """Whether jobs may start now, by the last look."""
        return not self._missing

    def chosen(self, jobs: Iterable[SnakemakeJob]) -> None:
        """Take in which jobs start now, with the credentials that there are."""
        if self._required:
            self._begun_with |= dict.fromkeys((job.jobid for job in jobs), self._there)

    def others_come(self, job: SnakemakeJob) -> bool:
        """Whether a job may get other credentials: these have ended, or are renewed already.

        Those that are still valid would be refused again, at any number of attempts. A server's
        clock may differ: what it has refused already, no job starts with.
        """
        if not self._required:
            return False
        from fasthep_smk.credentials.checks import CLOCKS

        self._margin = CLOCKS
        self.look()
        return not self.is_open() or self._there != self._begun_with.get(job.jobid)

    def keep_looking(self) -> threading.Event:
        """Look now, and now and then in a thread, until the event is set or the process ends."""
        over = threading.Event()
        if self._required:
            self.look()
            threading.Thread(target=self._repeat, args=(over,), daemon=True).start()
        return over

    def _repeat(self, over: threading.Event) -> None:
        while not over.wait(PAUSE):
            self.look()

    def look(self) -> None:
        """Look at the credentials."""
        from fasthep_smk.credentials.checks import lacking, look, renewed

        with self._lock:
            there = look(requirement.kind for requirement in self._required)
            missing = lacking(self._required, now=time.time() + self._margin, there=there)
            for kind in missing.keys() - self._missing:
                self._tell(str(missing[kind]))
            back = [
                requirement.kind
                for requirement in self._required
                if requirement.kind in self._missing - missing.keys()
            ]
            for line in renewed(back):
                self._tell(line)
            if not missing:
                self._margin = 2 * PAUSE
            self._there, self._missing = there, set(missing)


@cache
def gate_of_run() -> Gate:
    """Return the gate of the run of this process, in its build folder."""
    return Gate(required_of(Path()))
