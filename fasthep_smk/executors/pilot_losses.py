"""Pilots that were lost: what has become of each, and how many each job has lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from fasthep_smk import sites
from fasthep_smk.storage import failures
from fasthep_smk.storage.pilots import Crew
from fasthep_smk.util.units import format_duration

__all__ = ["MOST", "Losses", "Lost"]

#: How often a job may lose its pilot: it may be what ends them.
MOST = 3
_FIX = (
    "give pool {pool!r} a walltime, as long as one of its jobs takes at most "
    '(config: {{walltime: "HH:MM:SS"}}); no pilot starts a job then whose end it would not see'
)


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
        #: What the batch system said of each, and what each job has lost; pools that have the fix.
        self._said: dict[str, str | None] = {}
        self._of_jobs: dict[str, list[str]] = {}
        self._told: set[str] = set()

    def note(self, key: str, crew: Crew, error: BaseException) -> Lost:
        """Note that a job has lost its pilot, by Parsl's error; return what it has lost by now.

        The batch system is asked of the pilot, once: that may take a while.
        """
        with self._lock:
            mine = self._of_jobs.setdefault(key, [])
            pilot = _pilot(error)
            mine.append(pilot)
            if pilot and pilot not in self._said:
                self._said[pilot] = self._system.fate(pilot)
                self._tell(pilot, crew, again=len(mine) < MOST)
            ends = [self._said.get(one) or "" for one in mine]
            cut_off = crew.until is None and all(map(failures.is_of_time, ends))
            fix = _FIX.format(pool=crew.attempt.pool) if cut_off else None
            return Lost(len(mine), ends[-1] or None, fix)

    def _tell(self, pilot: str, crew: Crew, *, again: bool) -> None:
        pool, said = f"pool {crew.attempt.pool!r}", self._said[pilot]
        how = said or f"{self._name} does not say how it has ended"
        self._say(f"{pool}: pilot {pilot} was lost: {how}{'; its jobs run again' * again}")
        if crew.until is None and failures.is_of_time(said or "") and pool not in self._told:
            self._told.add(pool)
            lasts = crew.attempt.request.walltime
            end = f"a pilot ends after {format_duration(lasts)}" if lasts else "a pilot has ended"
            self._say(
                f"{pool}: {end}, and so does a job in it: {_FIX.format(pool=crew.attempt.pool)}"
            )


def _pilot(error: BaseException) -> str:
    """Return the id of the batch job that was lost; nothing if the pilot itself lives."""
    name = getattr(error, "manager_id", b"")
    return name.decode(errors="replace").partition(".")[0] if isinstance(name, bytes) else ""
