"""A run in the middle: what Snakemake reports and prints, counted and shown.

Snakemake reports events (`fasthep_smk.executors.logger_plugin`). For what has none, its texts and
those of its executor plugins are read (`fasthep_smk.executors.read_as_text`).
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from textwrap import shorten
from typing import TYPE_CHECKING

from fasthep_smk.executors import job_events
from fasthep_smk.executors.job_events import Event
from fasthep_smk.executors.read_as_text import IS_LOCKED, REFUSED, said_of_failed_job
from fasthep_smk.run.display import Screen
from fasthep_smk.run.job_counts import ProgressFacts, Tally
from fasthep_smk.storage import layout
from fasthep_smk.util import disk_full
from fasthep_smk.util.masking import masked
from fasthep_smk.util.units import format_duration

if TYPE_CHECKING:
    from fasthep_smk.translate.bundles import Bundles

#: The record of a job, or the marker of a bundle: the first of its outputs.
_FOLDER = re.compile(r"^(?:(\S+)/record\.json|(smk/bundles/\S+\.json))(?: \(.*)?$")
_ALL = "all"
#: Of a longer reason, the rest is for the end of the run.
_LONG = 120


@dataclass(frozen=True)
class Progress:
    """A run in the middle: jobs under way by rule, jobs not started, the build folder.

    On a cluster, a job that was submitted is under way for Snakemake, though it may wait. ``quiet``
    is how many seconds ago a job ended last. ``moved`` are those under way that have gone to
    another pool, by rule and pool.
    """

    running: dict[str, int]
    left: int
    run: str
    quiet: float
    moved: dict[tuple[str, str], int] = field(default_factory=dict)


class Reader:
    """Follows one process of Snakemake: its events, and the lines that it prints."""

    def __init__(
        self,
        screen: Screen | None,
        run: str = "",
        why: Callable[[str], str] = lambda _: "",
        bundles: Bundles | None = None,
    ) -> None:
        """Begin; ``why`` returns what the job of a log has said of its failure."""
        self.jobs: dict[str, int] = {}
        #: The folders of the jobs, and the markers of the bundles, that were announced.
        self.folders: list[str] = []
        self.tail: list[str] = []
        #: The logs of jobs that failed and are not tried again, by Snakemake's numbers of them;
        #: of several jobs that were one batch job, what the batch system captured, by its name.
        self.failed_logs: dict[str, str] = {}
        #: What Snakemake says of failed jobs, by their logs.
        self.messages: dict[str, str] = {}
        self.tally = Tally(screen.facts if screen else ProgressFacts())
        self.run = run
        self.last = time.monotonic()
        #: Whether Snakemake, or a shell of it, met a full disk.
        self.disk_full = False
        #: Whether another Snakemake works on the folder.
        self.locked_out = False
        self._screen, self._why, self._bundles = screen, why, bundles or {}
        #: By the numbers of jobs that failed as one batch job: what that captured.
        self._group_logs: dict[str, str] = {}
        #: The rule and the pool of jobs that have gone to their fallback, by their numbers.
        self._moved: dict[str, tuple[str, str]] = {}

    def line(self, text: str) -> None:
        """Read a line that was printed; the secrets in it are shown nowhere."""
        text = masked(text)
        self.tail = [*self.tail[-24:], text]
        self.disk_full = self.disk_full or disk_full.said(text)
        self.locked_out = self.locked_out or IS_LOCKED.search(text) is not None

    def event_line(self, line: str) -> None:
        """Read the line of an event."""
        event = job_events.from_line(line)
        if event is not None:
            self.event(event)

    def event(self, event: Event) -> None:
        """Follow the run by one event."""
        if follow := _FOLLOW.get(type(event)):
            follow(self, event)

    def progress(self) -> Progress:
        """Return how far the run is."""
        rules = self.tally.rules
        running = {rule: item.running for rule, item in rules.items() if item.running}
        left = self.tally.total - self.tally.done - sum(running.values())
        moved = Counter(where for job, where in self._moved.items() if self.tally.is_running(job))
        return Progress(running, max(left, 0), self.run, time.monotonic() - self.last, moved)

    def stop(self) -> None:
        """Take in that the user has stopped the run."""
        self.tally.stop()

    def say(self, text: str) -> None:
        """Show a line for the user."""
        if self._screen is not None:
            self._screen.say(masked(text))

    def problem(self, text: str) -> None:
        """Show a line about something that went wrong."""
        if self._screen is not None:
            self._screen.problem(masked(text))

    def _planned(self, event: job_events.JobsPlanned) -> None:
        # "all" is a job of Snakemake's, not one of ours.
        planned = {rule: count for rule, count in event.rules.items() if rule != _ALL}
        self.tally.begin(planned, self._bundles)
        self.jobs = {rule: item.total for rule, item in self.tally.rules.items()}
        if self._screen is not None:
            self._screen.begin(self.tally)

    def _started(self, event: job_events.JobStarted) -> None:
        match = next(filter(None, map(_FOLDER.match, event.outputs)), None)
        folder = (match[1] or match[2]) if match else ""
        if folder:
            self.folders.append(folder)
        self.tally.started(event.number, event.rule, folder)
        self.failed_logs.pop(self._group_logs.pop(event.number, ""), None)

    def _finished(self, event: job_events.JobFinished) -> None:
        self.tally.finished(event.number)
        self.last = time.monotonic()

    def _failed(self, event: job_events.JobFailed) -> None:
        self.tally.failed(event.number)
        self.last = time.monotonic()
        if self.tally.is_stopped:  # it has ended with the run
            return
        if event.logs:
            self._note(event.number, event.logs[0], event.message)
        log = event.logs[0] if event.logs else ""
        place = " ".join(layout.place_of_log(log))
        why = shorten(self._why(log), _LONG, placeholder=" ...")
        if not why and event.message.startswith(REFUSED):
            why = REFUSED.rstrip(": ")  # the sentence is told once, at the end
        self.problem(f"failed: {place or event.rule}" + (f": {why}" if why else ""))

    def _retried(self, event: job_events.JobRetried) -> None:
        self.failed_logs.pop(event.number, None)
        self.tally.retried(event.number)

    def _group_failed(self, event: job_events.GroupFailed) -> None:
        self.last = time.monotonic()
        for number in event.numbers:
            self.tally.failed(number)
        if event.logs:
            self._group_logs |= dict.fromkeys(event.numbers, event.logs[0])
            self._note(event.logs[0], event.logs[0], event.message)

    def _note(self, name: str, log: str, message: str) -> None:
        self.failed_logs[name] = log
        self.messages[log] = said_of_failed_job(message)

    def _progressed(self, event: job_events.Progressed) -> None:
        if event.done < event.total and self._screen is not None:
            self._screen.step(self.tally.done, self.tally.total)

    def _went_elsewhere(self, event: job_events.Moved) -> None:
        self._moved |= dict.fromkeys(event.numbers, (event.rule, event.to))
        count = len(event.numbers)
        job = " ".join(["job", event.rule, *event.places[:1]]).strip()
        jobs = job if count == 1 else f"{count} jobs of {event.rule}"
        waited = f"waited {format_duration(event.waited)} for" if event.waited else "refused by"
        self.say(f"{jobs} {waited} pool {event.pool}: now in pool {event.to}")

    def _problem(self, event: job_events.ReportedProblem) -> None:
        self.problem(event.text)


_FOLLOW: dict[type[Event], Callable[..., None]] = {
    job_events.JobsPlanned: Reader._planned,
    job_events.JobStarted: Reader._started,
    job_events.JobFinished: Reader._finished,
    job_events.JobFailed: Reader._failed,
    job_events.JobRetried: Reader._retried,
    job_events.GroupFailed: Reader._group_failed,
    job_events.Moved: Reader._went_elsewhere,
    job_events.Progressed: Reader._progressed,
    job_events.ReportedProblem: Reader._problem,
}
