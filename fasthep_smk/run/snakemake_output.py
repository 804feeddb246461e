"""A run in the middle: what Snakemake prints, counted; and a word when nothing happens."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fasthep_smk.run.display import Screen
from fasthep_smk.run.job_counts import Facts, Tally
from fasthep_smk.util import disk_full
from fasthep_smk.util.masking import masked

__all__ = ["Patience", "Progress", "Reader"]

#: Numbers are of few digits: Python refuses to make a number of thousands of them.
_STEPS = re.compile(r"^(\d{1,15}) of (\d{1,15}) steps \((\d+)%\) done")
_TOTAL = re.compile(r"^total\s+(\d+)\s*$")
_JOB = re.compile(r"^    jobid: (\S+)")
#: Of a batch job, what the batch system captured of it follows.
_FAILED_LOG = re.compile(r"^    log: (\S+?)(?:, \S+)* \(check log file")
_AGAIN = re.compile(r"^Trying to restart job (\S+)\.$")
_STAT = re.compile(r"^(\w+)\s+(\d{1,15})\s*$")
_OUTPUT = re.compile(r"^    output: (?:(\S+)/record\.json\b|(smk/bundles/\S+\.json)$)")
_STARTED = re.compile(r"^(?:local)?rule (\w+):$")
_FINISHED = re.compile(r"^Finished jobid: (\d+) \(Rule: (\w+)\)")
_ERROR = re.compile(r"^Error in rule (\w+):")
_MESSAGE = re.compile(r"^    message: (.+)")
_SUBMITTED = re.compile(
    r"^Job \S+ (?:submitted to HTCondor Cluster ID|has been submitted with SLURM jobid) (\d+)"
)
_REFUSED = re.compile(r"SLURM sbatch failed\. The error message was '(?:sbatch: error: )?(.*)'\.")
_RUN = re.compile(r"^(?:SLURM run ID|slurm run ID): (\S+)", re.IGNORECASE)


@dataclass(frozen=True)
class Progress:
    """A run in the middle: jobs under way by rule, jobs not started, the run's name.

    The name is the one that its jobs have in the batch system, or else the build folder. On a
    cluster, a job that was submitted is under way for Snakemake, though it may wait.
    """

    running: dict[str, int]
    left: int
    run: str
    quiet: float


class Patience:
    """Says why nothing happens, when no job has ended for some time; again after as long."""

    def __init__(
        self,
        reader: Reader,
        reasons: Callable[[Progress], list[str]] | None,
        patience: int,
    ) -> None:
        self._reader = reader
        self._reasons = reasons
        self._patience = patience
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        if self._reasons is not None:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _watch(self) -> None:
        assert self._reasons is not None
        spoke = time.monotonic()
        while not self._over.wait(1):
            quiet_since = max(self._reader.last, spoke)
            if time.monotonic() - quiet_since < self._patience or not self._reader.jobs:
                continue
            for line in self._reasons(self._reader.progress()):
                self._reader.say(line)
            spoke = time.monotonic()


class Reader:
    """Follows Snakemake's output: the table of jobs, then the steps done."""

    def __init__(self, screen: Screen | None, run: str = "") -> None:
        self.jobs: dict[str, int] = {}
        #: The folders of the jobs, and the markers of the bundles, that were announced.
        self.folders: list[str] = []
        self.tail: list[str] = []
        #: The logs of jobs that failed and are not tried again, by Snakemake's numbers of them;
        #: of several jobs that were one of the batch system, what that captured, by its name.
        self.failed_logs: dict[str, str] = {}
        #: What Snakemake says of failed jobs, by their logs.
        self.messages: dict[str, str] = {}
        self.tally = Tally(screen.facts if screen else Facts())
        self.done = 0
        self.run = run
        self.submitted: list[str] = []
        self.last = time.monotonic()
        #: Whether Snakemake, or a shell of it, met a full disk.
        self.disk_full = False
        #: Whether another Snakemake works on the folder.
        self.locked_out = False
        self._screen = screen
        self._in_table = False
        self._message: list[str] = []
        self._in_message = False
        #: The number of the job that failed last; empty until Snakemake has said it.
        self._failed_job: str | None = None
        #: The rule of the job that is being announced, and its folder; its number comes last.
        self._announced: str | None = None
        self._folder = ""

    def lines(self, texts: Iterable[str]) -> None:
        """Read what was printed before."""
        for text in texts:
            self.line(text.rstrip("\n"))

    def line(self, text: str) -> None:
        """Read a line; the secrets in it are shown nowhere."""
        text = masked(text)
        self.tail = [*self.tail[-24:], text]
        self.disk_full = self.disk_full or disk_full.said(text)
        self.locked_out = self.locked_out or "Directory cannot be locked" in text
        self._count(text)
        self._listen(text)
        if text.startswith("Job stats:"):
            self._in_table, self.jobs = True, {}
        elif self._in_table and _TOTAL.match(text):
            self._in_table = False
            self.tally.begin(self.jobs)
            if self._screen is not None:
                self._screen.begin(self.tally)
        elif self._in_table and (found := _STAT.match(text)) and found[1] != "all":
            self.jobs[found[1]] = int(found[2])
        elif found := _STEPS.match(text):
            # "all" is a step of Snakemake's, not a job of ours.
            done, total = int(found[1]), int(found[2])
            if done < total and self._screen is not None:
                self._screen.step(done, total - 1)
        elif found := _OUTPUT.match(text):
            self._folder = found[1] or found[2]
            self.folders.append(self._folder)
        elif found := _FAILED_LOG.match(text):
            self.failed_logs[self._failed_job or found[1]] = found[1]
            self._failed_job = None
            self.messages[found[1]] = _in_short(" ".join(self._message))
        elif self._failed_job == "" and (found := _JOB.match(text)):
            self._failed_job = found[1]
        elif found := _AGAIN.match(text):
            self.failed_logs.pop(found[1], None)
            self.tally.again(found[1])
        elif text.startswith(("HTCondor does not answer", "Slurm does not answer")):
            self.problem(text)
        elif text.startswith("Error in rule "):
            self._failed_job = ""
            self.problem(f"failed: {text.removeprefix('Error in rule ').rstrip(':')}")

    def _listen(self, text: str) -> None:
        """Follow what is said of the job that failed last."""
        if text.startswith("    "):
            self._in_message = False
        if found := _MESSAGE.match(text):
            self._message, self._in_message = [found[1]], True
        elif self._in_message:
            self._message.append(text)
        elif text.startswith("Error in rule "):
            self._message = []

    def _count(self, text: str) -> None:
        """Follow which rules have jobs under way."""
        if found := _STARTED.match(text):
            self._announced, self._folder = found[1], ""
        elif self._announced and (found := _JOB.match(text)):
            self.tally.started(found[1], self._announced, self._folder)
            self._announced = None
        elif found := _FINISHED.match(text):
            self.tally.finished(found[1], found[2])
            self.done += 1
            self.last = time.monotonic()
        elif found := _ERROR.match(text):
            self.tally.failed(found[1])
            self._announced = None
            self.last = time.monotonic()
        elif found := _SUBMITTED.match(text):
            self.submitted.append(found[1])
        elif found := _RUN.match(text):
            self.run = found[1]

    def progress(self) -> Progress:
        rules = self.tally.rules
        running = {rule: item.running for rule, item in rules.items() if item.running}
        left = sum(self.jobs.values()) - self.done - sum(running.values())
        return Progress(running, max(left, 0), self.run, time.monotonic() - self.last)

    def say(self, text: str) -> None:
        """Show a line for the user."""
        if self._screen is not None:
            self._screen.say(masked(text))

    def problem(self, text: str) -> None:
        """Show a line about something that went wrong."""
        if self._screen is not None:
            self._screen.problem(masked(text))


def _in_short(message: str) -> str:
    """Return what Snakemake says of a failed job, without what it says of every one."""
    text = message.partition("For further error details see")[0].strip()
    if found := _REFUSED.search(text):
        return f"could not be submitted: {found[1]}"
    return "" if text == "None" else text
