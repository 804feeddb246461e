"""A run in the middle: what Snakemake reports and prints, counted and shown.

Snakemake reports events (`fasthep_smk.executors.reporting`). For what has none, its texts and
those of its executor plugins are read (`fasthep_smk.executors.read_as_text`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
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


class Reader:
    """Follows one process of Snakemake: its events, and the lines that it prints."""

    def __init__(
        self,
        screen: Screen | None,
        why: Callable[[str], str] = lambda _: "",
        bundles: Bundles | None = None,
        facts: ProgressFacts | None = None,
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
        self.tally = Tally(facts)
        #: The pools of jobs that have gone to their fallback, by Snakemake's numbers.
        self.moved: dict[str, str] = {}
        #: When a job has ended last, on a clock that only goes on.
        self.last = time.monotonic()
        #: Whether Snakemake, or a shell of it, met a full disk.
        self.disk_full = False
        #: Whether another Snakemake works on the folder.
        self.locked_out = False
        self._screen, self._why, self._bundles = screen, why, bundles or {}
        #: By the numbers of jobs that failed as one batch job: what that captured.
        self._group_logs: dict[str, str] = {}

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
        match event:
            case job_events.JobsPlanned(rules):
                # "all" is a job of Snakemake's, not one of ours.
                planned = {rule: count for rule, count in rules.items() if rule != _ALL}
                self.tally.begin(planned, self._bundles)
                self.jobs = {rule: item.total for rule, item in self.tally.rules.items()}
                if self._screen is not None:
                    self._screen.begin(self.tally)
            case job_events.JobStarted(number, rule, outputs):
                found = next(filter(None, map(_FOLDER.match, outputs)), None)
                folder = (found[1] or found[2]) if found else ""
                if folder:
                    self.folders.append(folder)
                self.tally.started(number, rule, folder)
                self.failed_logs.pop(self._group_logs.pop(number, ""), None)
            case job_events.JobFinished(number):
                self.last = time.monotonic()
                if self.tally.finished(number) and self._screen is not None:
                    self._screen.step()
            case job_events.JobFailed():
                self._failed(event)
            case job_events.JobRetried(number):
                self.failed_logs.pop(number, None)
                self.tally.retried(number)
            case job_events.GroupFailed(numbers, logs, message):
                self.last = time.monotonic()
                for number in numbers:
                    self.tally.failed(number)
                if logs:
                    self._group_logs |= dict.fromkeys(numbers, logs[0])
                    self._note(logs[0], logs[0], message)
            case job_events.Moved():
                self._moved(event)
            case job_events.ReportedProblem(text):
                self.problem(text)

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

    def _failed(self, event: job_events.JobFailed) -> None:
        self.tally.failed(event.number)
        self.last = time.monotonic()
        if self.tally.is_stopped:  # it has ended with the run
            return
        log = event.logs[0] if event.logs else ""
        if log:
            self._note(event.number, log, event.message)
        place = " ".join(layout.place_of_log(log))
        why = shorten(self._why(log), _LONG, placeholder=" ...")
        if not why and event.message.startswith(REFUSED):
            why = REFUSED.rstrip(": ")  # the sentence is told once, at the end
        self.problem(f"failed: {place or event.rule}" + (f": {why}" if why else ""))

    def _note(self, name: str, log: str, message: str) -> None:
        self.failed_logs[name] = log
        self.messages[log] = said_of_failed_job(message)

    def _moved(self, event: job_events.Moved) -> None:
        self.moved |= dict.fromkeys(event.numbers, event.to)
        count = len(event.numbers)
        job = " ".join(["job", event.rule, *event.places[:1]]).strip()
        jobs = job if count == 1 else f"{count} jobs of {event.rule}"
        waited = f"waited {format_duration(event.waited)} for" if event.waited else "refused by"
        self.say(f"{jobs} {waited} pool {event.pool}: now in pool {event.to}")
