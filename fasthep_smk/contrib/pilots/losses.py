"""Pilots that were lost: what has become of each, and how many each job has lost."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass

from fasthep_smk import sites
from fasthep_smk.storage import failures
from fasthep_smk.storage.pilots import Crew
from fasthep_smk.util.units import format_duration

#: How often a job may lose its pilot: it may be what ends them.
MOST = 3


class Unusable(Exception):
    """There can be no more pilots of a crew."""


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
            return f"{self.number} pilots that ran it reached their time limit"
        return f"{self.number} pilots that ran it were lost"


class Losses:
    """The lost pilots of a run; any thread may note one. ``say`` hears of each once."""

    def __init__(self, system: str, say: Callable[[str], None]) -> None:
        self._name, self._system, self._say = sites.title(system), sites.system(system), say
        self._lock = threading.Lock()
        #: What the batch system says of each pilot, nothing if it does not; and of those that each
        #: job has lost.
        self._fates: dict[str, str] = {}
        self._of_jobs: dict[str, list[str]] = {}
        #: What users have been told of whole pools.
        self._told: set[str] = set()

    def note(self, key: str, crew: Crew, error: BaseException) -> Lost:
        """Note that a job has lost its pilot, by Parsl's error; return what it has lost by now.

        The batch system is asked of the pilot, once: that may take a while.
        """
        ends = self._of_jobs.setdefault(key, [])  # a job is in one pilot at a time
        # The id of the batch job that was lost; there is none if the pilot itself lives.
        name = getattr(error, "manager_id", None)
        pilot = name.decode(errors="replace").partition(".")[0] if isinstance(name, bytes) else ""
        with self._lock:
            if pilot and pilot not in self._fates:
                self._fates[pilot] = self._fate(pilot, crew, again=len(ends) + 1 < MOST)
        ends.append(self._fates.get(pilot, ""))
        cut_off = crew.until is None and all(map(failures.is_of_time, ends))
        return Lost(len(ends), ends[-1] or None, _fix(crew) if cut_off else None)

    def _fate(self, pilot: str, crew: Crew, *, again: bool) -> str:
        """Return what the batch system says of a pilot, and print it."""
        fate, pool = "", f"pool {crew.attempt.pool!r}"
        with contextlib.suppress(Exception):  # what cannot be asked says nothing
            fate = self._system.fate(pilot) or ""
        how = fate or f"{self._name} does not say how it ended"
        self._say(f"{pool}: pilot {pilot} was lost: {how}{'; its jobs run again' * again}")
        if crew.until is None and failures.is_of_time(fate) and pool not in self._told:
            self._told.add(pool)
            lasts = crew.attempt.request.walltime
            end = f"a pilot ends after {format_duration(lasts)}" if lasts else "a pilot has ended"
            self._say(f"{pool}: {end}, and so does a job in it: {_fix(crew)}")
        return fate


def _fix(crew: Crew) -> str:
    return (
        f"give pool {crew.attempt.pool!r} a walltime, as long as one of its jobs takes at most "
        '(config: {walltime: "HH:MM:SS"}); a pilot then starts only jobs that it has time for'
    )
