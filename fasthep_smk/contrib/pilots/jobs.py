"""Pilots as batch jobs: what a batch system has of those of one crew, and how many there may be.

How many there should be follows from their jobs: a pilot is begun if it would have work. To begin
one costs its node a second of processor time, and it comes seconds later. By then short jobs may be
done that a pilot which is there, or is just about to be, takes one after the other.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from fasthep_smk import sites
from fasthep_smk.sites.commands import ask
from fasthep_smk.storage import layout
from fasthep_smk.storage.pilots import Crew
from fasthep_smk.util.names import encode

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
#: Seconds of work that a pilot has to be worth, and those in which the first one comes.
_WORTH, _COMES = 3.0, 3.0
#: The seconds that a job is taken to last before one has ended, and by which part of it a new one
#: moves their mean.
_FIRST, _NEW = 0.75, 0.25


class Demand:
    """How many pilots the jobs of a crew are worth, which run ``tasks`` of them at a time.

    Any thread may ask.
    """

    def __init__(self, tasks: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._tasks, self._clock = tasks, clock
        self._lock = threading.Lock()
        self._under_way = 0
        #: Seconds that a job takes, and since when none has ended that is under way.
        self._each, self._since = _FIRST, clock()

    def begins(self) -> None:
        """Take in that a job was handed to the pilots."""
        with self._lock:
            if not self._under_way:
                self._since = self._clock()
            self._under_way += 1

    def ends(self, seconds: float | None = None) -> None:
        """Take in that a job has left the pilots; ``seconds``: it has run for so long."""
        with self._lock:
            self._under_way -= 1
            if seconds is not None:
                self._since = self._clock()
                self._each += _NEW * (seconds - self._each)

    @property
    def pilots(self) -> int:
        """How many pilots there should be.

        Jobs are as long as those that have ended; or longer, if for some time none has: it is not
        known what other rules of the pool do, and a pilot may wait in the queue. Then all pilots
        that jobs could use are begun within seconds.
        """
        with self._lock:
            each = max(self._each, self._clock() - self._since - _COMES)
            wanted = math.ceil(self._under_way * each / (_WORTH * self._tasks))
            return max(1, wanted) if self._under_way else 0


class PilotJobs:
    """The batch jobs of a crew; any thread may ask.

    ``told`` hears of each and of its pool, ``say`` what a user has to know. ``others`` are those of
    other crews in the same pool, which has its workers for all of them.
    """

    def __init__(
        self,
        system: str,
        crew: Crew,
        name: str,
        *,
        told: Callable[[str, str], None],
        say: Callable[[str], None],
    ) -> None:
        self.system, self.crew, self.demand = system, crew, Demand(crew.tasks)
        self.others: list[PilotJobs] = []
        self._system = sites.system(system)
        self._name, self._folder = name, Path(layout.PILOT_FILES)
        self._told, self._say = told, say
        #: Held while one is submitted: until there is an answer, it may come or not.
        self._submitting = threading.Lock()
        #: What all are doing, as of the last look.
        self.states: dict[str, PilotState] = {}
        #: Those that Parsl knows of: an answer to their submission was heard.
        self._heard: set[str] = set()
        #: Why some were refused, by their numbers, how many in a row, and until when none is tried.
        self._refused: dict[str, str] = {}
        self._in_a_row, self._pause = 0, 0.0
        self._is_silent = self._is_over = False

    @property
    def pool(self) -> str:
        return self.crew.attempt.pool

    def alive(self, *states: PilotState) -> list[str]:
        """Return those that are in the queue, or those of them in some states."""
        wanted = states or ("waiting", "running", "ending")
        return [job for job, state in dict(self.states).items() if state in wanted]

    @property
    def _may_submit(self) -> bool:
        return not self._is_over and time.monotonic() >= self._pause

    @property
    def room(self) -> int:
        """How many of those that Parsl knows of may be in the queue and not about to leave it."""
        if not self._may_submit:
            return 0
        taken = len(self.alive("ending")) + sum(len(other.alive()) for other in self.others)
        taken += len({*self.alive("waiting", "running")} - self._heard)
        return max(0, self.crew.most - taken)

    @property
    def is_crowded_out(self) -> bool:
        """Whether it has no pilot, and may have none, as other crews have all workers."""
        return self._may_submit and not self.alive() and self.room == 0

    @property
    def stays_away(self) -> bool:
        """Whether none runs, and none could just be on its way to the queue."""
        return not self._submitting.locked() and self.look() and not self.alive("running")

    def submit(self, command: str, number: str) -> str:
        """Submit the pilot that has a number with Parsl; return its number in the batch system.

        Raises:
            NotSubmitted: it was refused, or the batch system does not answer.
        """
        with self._submitting:
            if not self._may_submit:
                raise sites.NotSubmitted("not now")
            output = self._folder / f"{encode(self.pool)}-{self.crew.name}-{number}"
            try:
                job = self._system.submit(command, self._name, self.crew.attempt, output)
            except sites.Unanswered as error:
                self._pause = time.monotonic() + _SILENT
                if not self._is_silent:
                    self._say(
                        f"pool {self.pool!r}: no pilot can be submitted now; the run tries again: "
                        f"{error}"
                    )
                self._is_silent = True
                raise
            except sites.NotSubmitted as error:
                self._refused[number] = str(error)
                self._in_a_row += 1
                if self._in_a_row >= FAILED:
                    self._pause = time.monotonic() + _REFUSED
                raise
            self._is_silent, self._in_a_row = False, 0
            self._heard.add(job)
            self.states[job] = "waiting"
            self._told(job, self.pool)
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
        by_id = {entry.batch_id: entry for entry in queued}
        mine = [entry.batch_id for entry in queued if entry.name == self._name]
        new = [job for job in mine if job not in self.states]
        for job in (*left, *new):
            self.states[job] = by_id[job].state if job in by_id else "ended"
        for job in new:
            self._told(job, self.pool)
        # One that has come since the queue was asked is not known yet.
        waiting = {job: by_id[job].reason for job in self.alive("waiting") if job in by_id}
        held = {job: why for job, why in waiting.items() if why.startswith("held: ")}
        for why in dict.fromkeys(held.values()):
            self._say(f"pool {self.pool!r}: the run cancels a pilot that was {why}")
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
                failed.append(f"{FAILED} pilots ended before they connected, see {self._folder}")
            elif ends[number] not in ("FAILED", "SCALED_IN"):  # not submitted, or no longer needed
                return None
            if len(failed) == FAILED:
                return failed[0]
        return None

    def cancel(self, jobs: Iterable[str]) -> bool:
        """Take some out of the queue; tell whether the batch system has heard it."""
        jobs = list(jobs)
        heard = not jobs or ask(self._system.cancel(jobs)) is not None
        if heard:
            self.states.update(dict.fromkeys(jobs, "ending"))
        return heard

    def end(self) -> None:
        """Take all out of the queue, as well as that can be done at once."""
        self._is_over = True
        self.look()
        self.cancel(self.alive())

    def await_end(self, over: threading.Event) -> None:
        """Take all out of the queue, and wait until they are known to be gone, or all is over."""
        self._is_over = True
        slow = time.monotonic() + _SLOW
        while True:
            answers = False
            with contextlib.suppress(OSError):  # what is seen cannot be noted now
                answers = not self._submitting.locked() and self.look()
            left = self.alive()
            if answers and not left:
                return
            self.cancel(self.alive("waiting", "running"))
            if time.monotonic() > slow:
                slow = math.inf
                self._say(
                    f"pool {self.pool!r}: its jobs wait until its pilots are gone: {self.system} "
                    + (f"jobs {', '.join(left)}" if answers else "does not answer")
                )
            if over.wait(_LOOK):
                return


def names_of(crews: Sequence[Crew]) -> dict[str, str]:
    """Return what the pilots of each crew are called in the queue, by its name."""
    names: dict[str, str] = {}
    numbers = Counter[str]()
    for crew in crews:
        plain = f"pilot:{encode(crew.attempt.pool)}"
        numbers[plain] += 1
        names[crew.name] = plain if numbers[plain] == 1 else f"{plain}:{numbers[plain]}"
    return names
