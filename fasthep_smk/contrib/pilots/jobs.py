"""Pilots as batch jobs: what a batch system has of those of one crew, and how many there may be."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from fasthep_smk import sites
from fasthep_smk.sites.commands import ask
from fasthep_smk.storage import layout
from fasthep_smk.storage.pilots import Crew
from fasthep_smk.util.names import encode

__all__ = ["FAILED", "Batch", "PilotState", "names_of"]

#: What a pilot is doing in the queue. ``ending``: it was cancelled, or is just about to be gone.
PilotState = sites.QueueState | Literal["ended"]

#: So many pilots of a crew in succession that were refused, or have ended before they have said a
#: word, are the last if none is left.
FAILED = 3
#: Seconds between two tries to submit one where the batch system does not answer, and where it has
#: refused more than that.
_SILENT, _REFUSED = 5.0, 60.0
#: Seconds between two looks, and after which it is said that pilots are not gone.
_LOOK, _SLOW = 1.0, 30.0


class Batch:
    """The batch jobs of a crew; any thread may ask.

    ``told`` hears of each, ``say`` what a user has to know. ``others`` are those of other crews in
    the same pool, which has its workers for all of them.
    """

    def __init__(
        self,
        system: str,
        crew: Crew,
        name: str,
        *,
        told: Callable[[str], None],
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.system, self.crew = system, crew
        self.others: list[Batch] = []
        self._submit, self._system = sites.batch(system).submit, sites.system(system)
        self._name, self._folder = name, Path(layout.PILOT_FILES)
        self._told, self._say, self._clock = told, say, clock
        self._lock = threading.Lock()
        #: Held while one is submitted: until there is an answer, it may come or not.
        self._submitting = threading.Lock()
        self._states: dict[str, PilotState] = {}
        #: Why some were refused, by their numbers, how many in a row, and until when none is tried.
        self._refused: dict[str, str] = {}
        self._in_a_row = 0
        self._pause = -1.0
        self._is_silent = self._is_closed = self._is_over = False
        #: Those that Parsl does not know of, since no answer to their submission was heard.
        self._unheard: set[str] = set()
        #: Those that :meth:`withdraw` has put on hold.
        self._held: set[str] = set()

    @property
    def pool(self) -> str:
        return self.crew.attempt.pool

    def alive(self, *states: PilotState) -> list[str]:
        """Return those that are in the queue, or those of them in some states."""
        wanted = states or ("waiting", "running", "ending")
        with self._lock:
            return [job for job, state in self._states.items() if state in wanted]

    def states(self) -> Mapping[str, PilotState]:
        """Return what all are doing, as of the last look."""
        with self._lock:
            return dict(self._states)

    @property
    def room(self) -> int:
        """How many of those that Parsl knows of may be in the queue and not about to leave it."""
        if self._is_closed or self._clock() < self._pause:
            return 0
        taken = len(self.alive("ending")) + sum(len(other.alive()) for other in self.others)
        taken += len(self._unheard.intersection(self.alive("waiting", "running")))
        return max(0, self.crew.most - taken)

    @property
    def is_leaving(self) -> bool:
        """Whether :meth:`withdraw` has begun, and not come to an end."""
        return self._is_closed and not self._is_over

    @property
    def is_crowded_out(self) -> bool:
        """Whether it has no pilot, and may have none, as other crews have all workers."""
        may = not self._is_closed and self._clock() >= self._pause
        return may and not self.alive() and self.room == 0

    def submit(self, command: str, number: str) -> str:
        """Submit the pilot that has a number with Parsl; return its number in the batch system.

        Raises:
            NotSubmitted: it was refused, or the batch system does not answer.
        """
        with self._submitting:
            return self._submitted(command, number)

    def _submitted(self, command: str, number: str) -> str:
        if self._is_closed or self._clock() < self._pause:
            raise sites.NotSubmitted("not now")
        output = self._folder / f"{encode(self.pool)}-{self.crew.name}-{number}"
        try:
            job = self._submit(command, self._name, self.crew.attempt, output)
        except sites.Unanswered as error:
            self._pause = self._clock() + _SILENT
            if not self._is_silent:
                self._say(
                    f"pool {self.pool!r}: no pilot can be submitted now, trying again: {error}"
                )
            self._is_silent = True
            raise
        except sites.NotSubmitted as error:
            self._refused[number] = str(error)
            self._in_a_row += 1
            if self._in_a_row >= FAILED:
                self._pause = self._clock() + _REFUSED
            raise
        self._is_silent, self._in_a_row = False, 0
        self._unheard.discard(job)  # another thread may have seen it before this one
        self._now(job, "waiting")
        self._told(job)
        return job

    def look(self) -> bool:
        """Ask what they are doing; tell whether the batch system has answered.

        One whose submission has arrived although no answer was heard is one of them. What is held,
        since it took too much memory for example, is taken out of the queue: it never runs again.
        """
        left = self.alive()
        if not left and not self._is_silent:
            return True
        queued = self._system.queued(Path.cwd())
        if queued is None:
            return False
        known = {one.batch_id: one for one in queued}
        with self._lock:
            mine = [one.batch_id for one in queued if one.name == self._name]
            new = [job for job in mine if job not in self._states]
            self._states |= {
                job: known[job].state if job in known else "ended" for job in (*left, *new)
            }
        for job in new:
            self._unheard.add(job)
            self._told(job)
        held = {
            job: why.removeprefix("held: ")
            for job in self.alive("waiting")
            # One that has come since the queue was asked is not known yet.
            if job in known
            and job not in self._held
            and (why := known[job].reason).startswith("held: ")
        }
        for why in dict.fromkeys(held.values()):
            self._say(f"pool {self.pool!r}: a pilot is taken out of the queue, it was held: {why}")
        self.cancel(list(held))
        return True

    def problem(self, ends: Mapping[str, str]) -> str | None:
        """Return why there can be no more of them, if that is so.

        ``ends`` are Parsl's words for all that it has tried to submit, by their numbers.
        """
        if self.alive():
            return None
        failed: list[str] = []
        for number in sorted(ends, key=int, reverse=True):
            if number in self._refused:
                failed.append(self._refused[number])
            elif ends[number] == "MISSING":
                failed.append(f"{FAILED} of them ended before they connected, see {self._folder}")
            elif ends[number] not in ("FAILED", "SCALED_IN"):  # not submitted, or no longer needed
                return None
            if len(failed) == FAILED:
                return failed[0]
        return None

    def withdraw(self) -> bool | None:
        """Take all out of the queue, if none runs; tell whether that is done.

        They are put on hold first, from where none starts: those that are gone have never run.
        ``None``: that is not known yet, and this has to be called again. Until then none is
        submitted.
        """
        self._is_closed = True
        if self._submitting.locked() or not self.look():
            return None
        runs, waiting = self.alive("running"), self.alive("waiting")
        new = [job for job in waiting if job not in self._held and not runs]
        held = self._system.hold(new) if new else {}
        self._held |= {job for job, is_held in held.items() if is_held}
        gone = self._system.withdraw([job for job in waiting if job in self._held])
        for job in [job for job, is_gone in gone.items() if is_gone]:
            self._held.discard(job)
            self._now(job, "ended")
        known = [*held.values(), *gone.values()]
        if None in known or self.alive("ending"):
            return None
        if runs or False in known:
            self._is_closed = False
            return False
        return not self.alive() or None

    def cancel(self, jobs: Iterable[str]) -> bool:
        """Take some out of the queue; tell whether the batch system has heard it."""
        jobs = list(jobs)
        heard = not jobs or ask(self._system.cancel(jobs)) is not None
        for job in jobs if heard else ():
            self._now(job, "ending")
        return heard

    def end(self) -> None:
        """Take all out of the queue, as well as that can be done at once."""
        self._is_closed = self._is_over = True
        self.look()
        self.cancel(self.alive())

    def await_end(self, over: threading.Event) -> None:
        """Take all out of the queue, and wait until they are known to be gone, or all is over."""
        self._is_closed = self._is_over = True
        slow: float | None = self._clock() + _SLOW
        while True:
            answers = False
            with contextlib.suppress(OSError):  # what is seen cannot be noted now
                answers = not self._submitting.locked() and self.look()
            left = self.alive()
            if answers and not left:
                return
            self.cancel(self.alive("waiting", "running"))
            if slow is not None and self._clock() > slow:
                slow = None
                self._say(
                    f"pool {self.pool!r}: its jobs wait until its pilots are gone: {self.system} "
                    + (f"jobs {', '.join(left)}" if answers else "does not answer")
                )
            if over.wait(_LOOK):
                return

    def _now(self, job: str, state: PilotState) -> None:
        with self._lock:
            self._states[job] = state


def names_of(crews: Sequence[Crew]) -> dict[str, str]:
    """Return what the pilots of each crew are called in the queue, by its name."""
    found: dict[str, str] = {}
    for crew in crews:
        plain = f"pilot:{encode(crew.attempt.pool)}"
        number = sum(one.split(":")[:2] == plain.split(":") for one in found.values())
        found[crew.name] = f"{plain}:{number + 1}" if number else plain
    return found
