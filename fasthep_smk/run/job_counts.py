"""A run in numbers: jobs of each rule that are done, under way, failed; how long it may take."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fasthep_smk.storage import layout

if TYPE_CHECKING:
    from fasthep_smk.plan.rules import Rule
    from fasthep_smk.translate.bundles import Bundles
    from fasthep_smk.translate.profile import Placement

#: An earlier estimate, or one from fewer jobs, would be no more than a guess.
_SECONDS_FOR_ESTIMATE, _JOBS = 3.0, 2
#: The least part of a job that is taken to be left, however long it has run.
_LEAST_LEFT = 0.1


@dataclass(frozen=True)
class ProgressFacts:
    """What is known of jobs before they run.

    ``pools`` holds the pool of each rule, ``events`` the number of events of each partition's job,
    by its folder, or of a bundle, by its marker, as far as it is known.
    """

    pools: Mapping[str, str] = field(default_factory=dict)
    events: Mapping[str, int] = field(default_factory=dict)


@dataclass
class RuleTally:
    """The jobs of one rule. ``seconds`` is what its finished jobs took together.

    ``bundles`` is how many bundles they are in, 0 for none: one of these runs a job at a time.
    """

    total: int
    bundles: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    seconds: float = 0.0
    events: int = 0
    first: float | None = None
    last: float = 0.0

    @property
    def waiting(self) -> int:
        return max(self.total - self.running - self.done - self.failed, 0)

    @property
    def rate(self) -> float | None:
        """Events per second of wall time, from the first job's start to the last one's end."""
        if not self.events or self.first is None or self.last <= self.first:
            return None
        return self.events / (self.last - self.first)


@dataclass(frozen=True)
class Pace:
    """The jobs of one rule: how many are done, what they took together, how many are to start."""

    done: int = 0
    seconds: float = 0.0
    waiting: int = 0


@dataclass(frozen=True)
class _Started:
    rule: str
    folder: str
    time: float


def facts(rules: Iterable[Rule], placement: Placement) -> ProgressFacts:
    """Return what a translation knows of its jobs."""
    rules = list(rules)
    pools = {rule.name: placement.attempts[rule.name][0].pool for rule in rules}
    events = {
        job.folder: job.partition.events
        for rule in rules
        for job in rule.jobs.values()
        if job.partition is not None and job.partition.events is not None
    }
    for rule in rules:
        for bundle in rule.bundles.values():
            counts = [events.get(rule.jobs[key].folder) for key in bundle.jobs]
            if None not in counts:
                events[bundle.marker] = sum(count for count in counts if count is not None)
    return ProgressFacts(pools, events)


class Tally:
    """Counts jobs as they start and end. Snakemake's numbers name them.

    Rules that were not said to have jobs do not count: ``all`` is Snakemake's. ``latest`` is the
    rule, and the dataset with its partition, of the job that ended last; ``ended`` are the rules
    and folders of those that are done, in this order, or of bundles their markers.
    """

    def __init__(
        self, facts: ProgressFacts | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.facts = facts or ProgressFacts()
        self.rules: dict[str, RuleTally] = {}
        self._bundles: Bundles = {}
        self._clock = clock
        self._began = clock()
        self._started: dict[str, _Started] = {}
        self._failed: dict[str, _Started] = {}
        self.latest = ""
        self.ended: list[tuple[str, str]] = []
        self.is_stopped = False
        #: How many jobs were under way when the last one started.
        self._at_once = 0

    def begin(self, jobs: Mapping[str, int], bundles: Bundles) -> None:
        """Start anew with a number of Snakemake's jobs of each rule; some are ``bundles``."""
        self.rules, self._bundles = {}, bundles
        for rule, count in jobs.items():
            more = sum(len(folders) - 1 for folders in bundles.get(rule, {}).values())
            self.rules[rule] = RuleTally(count + more, count if rule in bundles else 0)
        self._began = self._clock()
        self._started, self._failed, self.ended, self._at_once = {}, {}, [], 0

    def started(self, number: str, rule: str, folder: str) -> None:
        now = self._clock()
        tally = self.rules.get(rule)
        if tally is None:
            return
        self.retried(number)
        tally.running += 1
        tally.first = now if tally.first is None else tally.first
        self._started[number] = _Started(rule, folder, now)
        self._at_once = len(self._started)

    def finished(self, number: str) -> bool:
        """Count a job as done, or all jobs of a bundle; return whether it is one that counts."""
        job, now = self._started.pop(number, None), self._clock()
        if job is None:
            return False
        tally = self.rules[job.rule]
        tally.running -= 1
        tally.done += len(self._bundles.get(job.rule, {}).get(job.folder, [job.folder]))
        tally.last = now
        tally.seconds += now - job.time
        tally.events += self.facts.events.get(job.folder, 0)
        self.latest = _place(job)
        self.ended.append((job.rule, job.folder))
        return True

    def stop(self) -> None:
        """Take in that the user has stopped the run: what ends with it has not failed."""
        self.is_stopped = True

    def failed(self, number: str) -> None:
        job = self._started.pop(number, None)
        if job is None:
            return
        self.rules[job.rule].running -= 1
        if not self.is_stopped:
            self._failed[number] = job
            self.rules[job.rule].failed += 1

    def retried(self, number: str) -> None:
        """Take back that a job has failed, or was under way: it is tried again."""
        if (job := self._failed.pop(number, None)) is not None:
            self.rules[job.rule].failed -= 1
        if (job := self._started.pop(number, None)) is not None:
            self.rules[job.rule].running -= 1

    @property
    def running(self) -> dict[str, str]:
        """The rules of the jobs that run, by their numbers."""
        return {number: job.rule for number, job in list(self._started.items())}

    @property
    def under_way(self) -> set[str]:
        """The folders of jobs that run, or of bundles their markers."""
        return {job.folder for job in self._started.values()}

    @property
    def lost(self) -> set[str]:
        """The folders of jobs that have failed, or of bundles their markers."""
        return {job.folder for job in self._failed.values()}

    @property
    def total(self) -> int:
        return sum(item.total for item in self.rules.values())

    @property
    def done(self) -> int:
        return sum(item.done for item in self.rules.values())

    @property
    def elapsed(self) -> float:
        return self._clock() - self._began

    def seconds_left(self) -> float | None:
        """Return how long the rest of the run may take, or None if that cannot be said yet.

        What failed, and what waits for it, is not counted apart.
        """
        if self.is_stopped or self.elapsed < _SECONDS_FOR_ESTIMATE:
            return None
        now, done = self._clock(), Counter(rule for rule, _ in self.ended)
        rules = {}
        for rule, item in self.rules.items():
            left = (item.bundles or item.total) - done[rule] - item.running - item.failed
            rules[rule] = Pace(done[rule], item.seconds, max(left, 0))
        running = [(job.rule, now - job.time) for job in list(self._started.values())]
        return seconds_left(rules, running, at_once=self._at_once)

    def in_short(self) -> str:
        """Return how many jobs are done, since when, and how long the rest may take."""
        progress = f"[{self.done}/{self.total}] jobs done"
        if self.done >= self.total:
            return f"{progress} in {_clock(self.elapsed)}"
        if self.is_stopped:
            return f"{progress}, stopped after {_clock(self.elapsed)}"
        parts = [progress, f"{_clock(self.elapsed)} so far"]
        if (left := self.seconds_left()) is not None:
            parts.append(f"about {_clock(left)} left")
        return ", ".join(parts)


def seconds_left(
    rules: Mapping[str, Pace], running: Iterable[tuple[str, float]], *, at_once: int | None = None
) -> float | None:
    """Return how long the rest of a run may take, or ``None`` if that cannot be said yet.

    ``running`` are the rules of the jobs under way, and for how long each has run. Jobs to do are
    taken to last as long as those of their rule did, and ``at_once`` of them to run at a time, or
    as many as now.
    """
    under_way = list(running)
    done = sum(pace.done for pace in rules.values())
    left = len(under_way) + sum(pace.waiting for pace in rules.values())
    workers = min(at_once or len(under_way), left)
    if done < _JOBS or not workers:
        return None
    common = sum(pace.seconds for pace in rules.values()) / done
    mean = {rule: pace.seconds / pace.done if pace.done else common for rule, pace in rules.items()}
    work = sum(mean[rule] * pace.waiting for rule, pace in rules.items())
    work += sum(max(mean[rule] - ran, _LEAST_LEFT * mean[rule]) for rule, ran in under_way)
    return work / workers


def _place(job: _Started) -> str:
    """Return which job it is, as a failed one is named: ``stage_Vars dy/0_0``."""
    place = job.folder.removeprefix(f"{layout.WORK}/").removeprefix(f"{layout.BUNDLES}/")
    place = place.removeprefix(job.rule).removesuffix(".json").strip("/")
    return f"{job.rule} {place}".strip()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
