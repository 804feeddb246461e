"""Jobs whose amounts may change while the run goes on ask for what is known when they are ready.

That is what those of their rule took that have ended, and what an earlier attempt of theirs has
lacked (:mod:`fasthep_smk.plan.amounts`). Before the scheduler chooses, those that wait are
evaluated anew; a worker is told what its job has asked for with the number of its attempt.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fasthep_smk import sites
from fasthep_smk.config.requests import Attempt, ResourceRequest
from fasthep_smk.plan.amounts import GROWING, Known, Past, amounts, whole
from fasthep_smk.plan.sizes import LEAST_JOBS, MeasuredJob, Sizing, sizing
from fasthep_smk.storage import failures
from fasthep_smk.storage.job_settings import MOVED, at_place, attempts_of, read_requests, word
from fasthep_smk.storage.jobs import TaskJob, jobs_of
from fasthep_smk.storage.measured import entries, events_of, read_changing, taken_by
from fasthep_smk.util.errors import SmkError
from fasthep_smk.util.shapes import ready

if TYPE_CHECKING:
    from fasthep_smk.storage.failures import Failure
    from fasthep_smk.storage.measured import Changing
    from fasthep_smk.util.snakemake_types import SnakemakeJob

#: A request follows from the last so many jobs at most, and is computed again when there are so
#: many times as many.
_LAST, _MORE = 500, 1.3

_Name = tuple[str, str]


@dataclass
class _Taken:
    """What the jobs of a rule took in a pool, and what follows for others."""

    memory: list[MeasuredJob] = field(default_factory=list)
    walltime: list[MeasuredJob] = field(default_factory=list)
    most: dict[str, float] = field(default_factory=lambda: {"memory": 0.0, "walltime": 0.0})
    number: int = 0
    sizing: Mapping[str, Sizing | None] = field(default_factory=dict)

    def add(self, memory: float, seconds: float, events: int | None) -> None:
        self.memory.append(MeasuredJob(memory, events))
        self.walltime.append(MeasuredJob(seconds, events))
        for name, amount in (("memory", memory), ("walltime", seconds)):
            self.most[name] = max(self.most[name], amount)

    def known(self, name: str, size: float | None) -> Known:
        """Return what is known of an amount of a job of a size."""
        number = len(self.memory)
        if number < LEAST_JOBS:
            return Known(most=self.most[name])
        enough = self.number + 1 if number <= 2 * LEAST_JOBS else _MORE * self.number
        if number >= enough:
            self.number = number
            self.sizing = {
                amount: sizing(getattr(self, amount)[-_LAST:], amount) for amount in GROWING
            }
        fit = self.sizing[name]
        return Known(None if fit is None else whole(fit.request(size), name), self.most[name])


class Sizes:
    """What jobs of a run ask for that may change while it goes on."""

    def __init__(
        self, build: Path, number: Callable[[SnakemakeJob], int] = lambda job: int(job.attempt)
    ) -> None:
        """``number`` is that of a job's attempt, as a worker is told it."""
        self._build, self._number = build, number
        self._rules: dict[str, Changing] = {}
        with contextlib.suppress(OSError, ValueError, KeyError):
            self._requests = read_requests(build)
            self._rules = read_changing(build)
        self._taken: dict[_Name, _Taken] = {}
        for rule, changing in self._rules.items():
            for pool, jobs in changing.taken.items():
                for job in jobs:
                    self._of(rule, pool).add(*job)
        self._jobs: dict[str, dict[str, list[TaskJob]]] = {}
        self._entries: dict[str, int] | None = None
        #: Jobs that are under way.
        self._running: dict[SnakemakeJob, _Name] = {}
        #: What jobs were sent out with, by the number of the attempt.
        self._sent: dict[_Name, dict[int, Attempt]] = {}
        #: Attempts that have failed, which are looked at once.
        self._failed: dict[tuple[str, str, int], Past] = {}
        #: How often there was news of a rule, and how often when a job was last checked.
        self._news: Counter[str] = Counter()
        self._looked: dict[SnakemakeJob, int] = {}
        #: What first attempts ask for by what is known now: the same for jobs that are alike.
        self._first: dict[object, ResourceRequest] = {}
        self._size_of: dict[_Name, int | None] = {}

    def __bool__(self) -> bool:
        return bool(self._rules)

    def stop(self) -> None:
        """Size no job: workers would not be told."""
        self._rules = {}

    def attempt(self, rule: str, key: str, number: int) -> Attempt:
        """Return a job's attempt with what it asks for, by what is known now."""
        tried = number % MOVED - 1
        return self._asking(rule, key, number, self._past(rule, key, tried) if tried > 0 else None)

    def after(self, rule: str, key: str, number: int, name: str, had: int) -> int | None:
        """Return what an attempt would ask for if the one before lacked ``had`` of an amount."""
        now = self._translated(rule, key, number)
        past = Past(replace(now, request=replace(now.request, **{name: had})), (GROWING[name],))
        asked: int | None = getattr(self._asking(rule, key, number, past).request, name)
        return asked

    def _asking(self, rule: str, key: str, number: int, past: Past | None) -> Attempt:
        size, translated = self._size(rule, key), self._translated(rule, key, number).request

        def known(pool: str, name: str) -> Known:
            learned = self._of(rule, pool).known(name, size)
            # While too little is known, the translation may know of other jobs.
            return learned if learned.first else replace(learned, first=getattr(translated, name))

        return amounts(self._stated(rule, key), number, past, known)

    def _stated(self, rule: str, key: str) -> tuple[Attempt, ...]:
        return self._own(rule, key) or self._rules[rule].stated

    def _own(self, rule: str, key: str) -> tuple[Attempt, ...] | None:
        """Return what is said of this job, of its dataset or file, and not of others."""
        changing = self._rules[rule]
        if not changing.own:
            return None
        return at_place(changing.own, dict(zip(changing.wildcards, key.split("/"), strict=False)))

    def _translated(self, rule: str, key: str, number: int) -> Attempt:
        """Return an attempt that asks for what the translation knew: what the profile says."""
        stated = self._stated(rule, key)
        place = min(number, len(stated)) - 1
        asked = attempts_of(self._requests, rule, key)[place]
        return replace(stated[place], request=msgspec.convert(asked, ready(ResourceRequest)))

    def _past(self, rule: str, key: str, tried: int) -> Past | None:
        """Return the last attempt, up to a number, of a job or of those of a bundle, which failed.

        ``None``: nothing is known of any. One that has left no note may have lacked anything else.
        """
        if (rule, key, tried) in self._failed:
            return self._failed[rule, key, tried]
        sent, fate = self._sent.get((rule, key), {}), sites.system(self._requests["system"]).fate
        paths = [failures.path_of(self._build, rule, job.key) for job in self._members(rule, key)]
        notes = [note for note in map(failures.read, paths) if note and note.attempt <= tried]
        tries = {
            *(note.attempt for note in notes),
            *(number for number in sent if number <= tried),
        }
        if not tries:
            return None
        last = max(tries)
        notes = [died_of(note, fate) for note in notes if note.attempt == last]
        had = sent.get(last) or self._translated(rule, key, last)
        for name in GROWING:  # one that an earlier run has sent had other amounts
            if amounts_had := [amount for note in notes if (amount := getattr(note, name))]:
                had = replace(had, request=replace(had.request, **{name: max(amounts_had)}))
        past = Past(had, {note.kind for note in notes})
        if notes:
            self._failed[rule, key, tried] = past
        return past

    def sized(
        self, rule: str, key: str, number: int, found: Mapping[str, object]
    ) -> dict[str, object]:
        """Return those resources of a job that differ from ``found``, which the profile gives."""
        base = self._translated(rule, key, number)
        then = self._resources(rule, base, number)
        request = self.request(rule, key, number)
        now = self._resources(rule, replace(base, request=request), number)
        own = {
            name: value
            for name, value in now.items()
            # What a person has written into the site's profile stays.
            if value != then.get(name) and found.get(name, then.get(name)) == then.get(name)
        }
        if "mem_mb" in own and "mem_mib" in found:  # Snakemake's own, of the same
            own["mem_mib"] = math.ceil(Fraction(int(str(own["mem_mb"])) * 10**6, 2**20))
        return {**own, "attempt": word(number, request.memory, request.walltime)}

    def request(self, rule: str, key: str, number: int) -> ResourceRequest:
        """Return what an attempt asks for."""
        alike = (rule, number, id(self._own(rule, key)), self._size(rule, key))
        if number % MOVED == 1 and alike in self._first:
            return self._first[alike]
        now = self.attempt(rule, key, number).request
        base = self._translated(rule, key, number).request
        asked = replace(base, memory=now.memory, walltime=now.walltime)
        if number % MOVED == 1:
            self._first[alike] = asked
        return asked

    def _resources(self, rule: str, attempt: Attempt, number: int) -> dict[str, object]:
        changing, time = self._rules[rule], attempt.request.walltime
        if time is not None and changing.together > 1:  # that of all jobs of a bundle
            longest = changing.longest[min(number, len(changing.longest)) - 1]
            together = time * changing.together
            time = max(time, min(together, longest or together))
            attempt = replace(attempt, request=replace(attempt.request, walltime=time))
        # A partition or flavour follows from the amounts.
        system = sites.system(self._requests["system"])
        return {**sites.common_resources(attempt), **system.resources(attempt)}

    def refresh(self, jobs: Iterable[SnakemakeJob], running: Collection[SnakemakeJob]) -> None:
        """Take in what jobs took that have ended, and let those that wait ask for what follows."""
        under_way = {*running}
        for job in [job for job in self._running if job not in under_way]:
            rule, key = self._running.pop(job)
            if not self._learns(rule) or self._own(rule, key):
                continue  # what is said of some jobs is said because they are not like others
            for member in self._members(rule, key):
                if (took := taken_by(self._build, member, self._counted())) is not None:
                    self._of(rule, took.pool).add(took.memory, took.seconds, took.events)
                    self._news[rule] += 1
                    self._first.clear()
        for job in jobs:
            if (name := self.name(job)) is None:
                continue
            news = self._news[name[0]]
            if news != self._looked.get(job, 0) and self._is_old(job, *name):
                job.attempt = job.attempt  # which lets Snakemake evaluate anew what it asks for
            self._looked[job] = news

    def _is_old(self, job: SnakemakeJob, rule: str, key: str) -> bool:
        """Whether a job asks for something else than it would if that was evaluated now."""
        number = self._number(job)
        request = self.request(rule, key, number)
        now = word(number, request.memory, request.walltime)
        return str(job.resources["attempt"]) != now

    def chosen(self, jobs: Iterable[SnakemakeJob]) -> None:
        """Take in which jobs are sent out now."""
        for job in jobs:
            if (name := self.name(job)) is not None:
                number = self._number(job)
                base = self._translated(*name, number)
                sent = replace(base, request=self.request(*name, number))
                self._sent.setdefault(name, {})[number % MOVED] = sent
                self._running[job] = name

    def name(self, job: SnakemakeJob) -> _Name | None:
        """Return the rule and key of a job whose amounts may change."""
        rule = getattr(getattr(job, "rule", None), "name", None)
        return (rule, self.key(rule, job.wildcards_dict)) if rule in self._rules else None

    def key(self, rule: str, wildcards: Mapping[str, object]) -> str:
        """Return the key of a job by its wildcards."""
        return "/".join(str(wildcards[name]) for name in self._rules[rule].wildcards)

    def changes(self, rule: str) -> bool:
        """Whether what jobs of a rule ask for may change."""
        return rule in self._rules

    def _learns(self, rule: str) -> bool:
        """Whether jobs of a rule ask for what others took: else nobody asks what that was."""
        return any(attempt.measured for attempt in self._rules[rule].stated)

    def _of(self, rule: str, pool: str) -> _Taken:
        return self._taken.setdefault((rule, pool), _Taken())

    def _members(self, rule: str, key: str) -> list[TaskJob]:
        """Return a job, or those of a bundle; none if its table cannot be read."""
        if rule not in self._jobs:
            self._jobs[rule] = {}
            with contextlib.suppress(OSError, SmkError):
                self._jobs[rule] = jobs_of(self._build, rule)
        return self._jobs[rule].get(key, [])

    def _counted(self) -> dict[str, int]:
        if self._entries is None:
            self._entries = entries(self._build)
        return self._entries

    def _size(self, rule: str, key: str) -> int | None:
        """Return how many entries a job reads, the most of those in a bundle, if it matters."""
        if not self._learns(rule):
            return None
        if (rule, key) not in self._size_of:
            sizes = [events_of(job, self._counted()) for job in self._members(rule, key)]
            counts = [size for size in sizes if size is not None]
            self._size_of[rule, key] = max(counts) if counts and len(counts) == len(sizes) else None
        return self._size_of[rule, key]


def died_of(note: Failure, fate: Callable[[str], str | None]) -> Failure:
    """Return the note of a failed job with what its batch system, which ``fate`` asks, says.

    The time of a bundle is that of all its jobs: one that was ended with it need not have lacked
    time.
    """
    complete = failures.with_fate(note, fate)
    is_of_all = note.bundle is not None and note.kind == "killed" and complete.kind == "time"
    return replace(complete, kind="killed") if is_of_all else complete
