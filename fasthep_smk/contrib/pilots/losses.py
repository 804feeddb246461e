"""Pilots that were lost: what has become of each, and how many each job has lost."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from fasthep_smk import sites
from fasthep_smk.storage import failures
from fasthep_smk.storage.pilots import Crew
from fasthep_smk.util.units import format_duration

__all__ = ["MOST", "Losses", "Lost", "Unusable", "is_lost", "is_unusable"]

#: How often a job may lose its pilot: it may be what ends them.
MOST = 3


class Unusable(Exception):
    """There can be no more pilots of a crew."""


def is_unusable(error: BaseException) -> bool:
    """Return whether a job was not run since there can be no more pilots of its crew."""
    return isinstance(error, Unusable) or type(error).__name__ == "BadStateException"


def is_lost(error: BaseException) -> bool:
    """Return whether a job has lost its pilot."""
    return type(error).__name__ in ("ManagerLost", "WorkerLost")


@dataclass(frozen=True)
class Lost:
    """What a job has lost: how many pilots, and what the batch system says of the last one.

    ``fix``: all of them have ended by their time limit, and what to do about it.
    """

    number: int
    said: str | None = None
    fix: str | None = None

    @property
    def why(self) -> str:
        """Why a job has failed that has lost so many."""
        if self.fix:
            return f"{self.number} pilots that ran it have come to the end of their time"
        return f"{self.number} pilots were lost that ran it"


class Losses:
    """The lost pilots of a run; any thread may note one. ``say`` hears of each once."""

    def __init__(self, system: str, say: Callable[[str], None]) -> None:
        self._name, self._system, self._say = sites.title(system), sites.system(system), say
        self._lock = threading.Lock()
        #: What the batch system says of each pilot, nothing if it does not; and of those that each
        #: job has lost.
        self._fates: dict[str, Future[str]] = {}
        self._of_jobs: dict[str, list[str]] = {}
        #: The pools that were told the fix.
        self._told: set[str] = set()

    def note(self, key: str, crew: Crew, error: BaseException) -> Lost:
        """Note that a job has lost its pilot, by Parsl's error; return what it has lost by now.

        The batch system is asked of the pilot, once: that may take a while.
        """
        before = self._of_jobs.get(key, [])  # a job is in one pilot at a time
        pilot = _pilot(error)
        ends = [*before, self._fate(pilot, crew, again=len(before) + 1 < MOST) if pilot else ""]
        self._of_jobs[key] = ends
        cut_off = crew.until is None and all(map(failures.is_of_time, ends))
        return Lost(len(ends), ends[-1] or None, _fix(crew) if cut_off else None)

    def _fate(self, pilot: str, crew: Crew, *, again: bool) -> str:
        """Return what the batch system says of a pilot, and print it the first time."""
        with self._lock:
            asks = pilot not in self._fates
            found = self._fates.setdefault(pilot, Future())
        if asks:
            said = ""
            try:
                with contextlib.suppress(Exception):  # what cannot be asked says nothing
                    said = self._system.fate(pilot) or ""
            finally:
                found.set_result(said)
            self._tell(pilot, crew, said, again=again)
        return found.result()

    def _tell(self, pilot: str, crew: Crew, said: str, *, again: bool) -> None:
        pool = f"pool {crew.attempt.pool!r}"
        how = said or f"{self._name} does not say how it has ended"
        self._say(f"{pool}: pilot {pilot} was lost: {how}{'; its jobs run again' * again}")
        with self._lock:
            is_new = crew.until is None and failures.is_of_time(said) and pool not in self._told
            self._told |= {pool} if is_new else set()
        if is_new:
            lasts = crew.attempt.request.walltime
            end = f"a pilot ends after {format_duration(lasts)}" if lasts else "a pilot has ended"
            self._say(f"{pool}: {end}, and so does a job in it: {_fix(crew)}")


def _fix(crew: Crew) -> str:
    return (
        f"give pool {crew.attempt.pool!r} a walltime, as long as one of its jobs takes at most "
        '(config: {walltime: "HH:MM:SS"}); no pilot starts a job then whose end it would not see'
    )


def _pilot(error: BaseException) -> str:
    """Return the id of the batch job that was lost; nothing if the pilot itself lives."""
    name = getattr(error, "manager_id", b"")
    return name.decode(errors="replace").partition(".")[0] if isinstance(name, bytes) else ""
