"""Jobs of rules with ``sizes: auto`` ask for what those that have ended took.

What a job asks for is evaluated when it is ready. Before the scheduler chooses, those that wait get
what is known by then; a worker is told what its job has asked for with the number of its attempt.
A job that is tried again asks for more of what it has lacked, and of nothing else.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fasthep_smk import sites
from fasthep_smk.config.requests import Attempt, ResourceRequest
from fasthep_smk.plan.sizes import LEAST_JOBS, Sample, Sizing, next_request, sizing, whole
from fasthep_smk.storage import failures
from fasthep_smk.storage.job_settings import (
    MOVED,
    at_place,
    attempts_of,
    read_measuring,
    read_requests,
    word,
)
from fasthep_smk.storage.jobs import TaskJob, jobs_of
from fasthep_smk.storage.measured import entries, events_of, taken_by
from fasthep_smk.util.errors import SmkError

if TYPE_CHECKING:
    from fasthep_smk.storage.job_settings import Measuring
    from fasthep_smk.storage.record import Asked
    from fasthep_smk.util.snakemake_types import SnakemakeJob

__all__ = ["Sizes"]

#: Of so many jobs at most, the last ones, requests are made; they are made anew when there are so
#: many times as many.
_LAST, _MORE = 500, 1.3
#: What Snakemake calls an amount: one that a site's profile has set is left alone.
_RESOURCE = {"memory": "mem_mb", "walltime": "runtime"}
#: How a job says that it has lacked it.
_LACKED = {"memory": "memory", "walltime": "time"}
#: How it has ended if nothing says what it lacked: the last attempt lacks nothing.
_UNKNOWN = "killed"

_Name = tuple[str, str]
_Value = TypeVar("_Value")


@dataclass
class _Known:
    """What the jobs of a rule took in a pool, and what follows for others."""

    memory: list[Sample] = field(default_factory=list)
    walltime: list[Sample] = field(default_factory=list)
    number: int = 0
    sizing: Mapping[str, Sizing | None] = field(default_factory=dict)

    def add(self, memory: float, seconds: float, events: int | None) -> None:
        self.memory.append(Sample(memory, events))
        self.walltime.append(Sample(seconds, events))

    def request(self, name: str, size: float | None) -> int | None:
        """Return what a job of a size asks for; ``None``: too little is known."""
        number = len(self.memory)
        if number < LEAST_JOBS:
            return None
        enough = self.number + 1 if number <= 2 * LEAST_JOBS else _MORE * self.number
        if number >= enough:
            self.number = number
            self.sizing = {one: sizing(getattr(self, one)[-_LAST:], one) for one in _RESOURCE}
        found = self.sizing[name]
        return None if found is None else whole(found.request(size), name)


class Sizes:
    """What jobs of a run ask for whose rules are measured."""

    def __init__(
        self, build: Path, number: Callable[[SnakemakeJob], int] = lambda job: int(job.attempt)
    ) -> None:
        """``number`` is that of a job's attempt, as a worker is told it."""
        self._build, self._number = build, number
        self._rules: dict[str, Measuring] = {}
        with contextlib.suppress(OSError, ValueError, KeyError):
            rules = read_measuring(build)
            self._requests = read_requests(build)
            self._rules = rules
        self._known: dict[_Name, _Known] = {}
        for rule, said in self._rules.items():
            for pool, jobs in said["taken"].items():
                for one in jobs:
                    self._of(rule, pool).add(*one)
        self._jobs: dict[str, dict[str, list[TaskJob]]] = {}
        self._entries: dict[str, int] | None = None
        #: Amounts that jobs were sent out with, and at which attempt; jobs that are under way.
        self._sent: dict[_Name, tuple[int, Asked]] = {}
        self._running: dict[SnakemakeJob, _Name] = {}
        #: What jobs ask for after a failure, which is looked at once.
        self._again: dict[tuple[str, str, int], Asked] = {}
        #: Amounts of rules that a person has fixed in the site's profile.
        self._fixed: set[tuple[str, str]] = set()

    def __bool__(self) -> bool:
        return bool(self._rules)

    def stop(self) -> None:
        """Size no job: workers would not be told."""
        self._rules = {}

    def asked(self, rule: str, key: str, attempt: int) -> Asked:
        """Return the amounts that a job asks for at an attempt, of those that are its own."""
        said, number = self._rules[rule], attempt % MOVED
        most, names = _of_attempt(said["most"], attempt), self._names(rule, key, attempt)
        if number > 1:
            if (rule, key, attempt) not in self._again:
                self._again[rule, key, attempt] = self._after_failure(rule, key, attempt)
            return self._again[rule, key, attempt]
        known = self._of(rule, str(most.get("pool")))
        size = self._size(rule, key)
        found: Asked = {}
        for name in names:
            wanted = known.request(name, size)
            if wanted is not None and (rule, name) not in self._fixed:
                _put(found, name, _capped(wanted, self._limit(said, attempt, name)))
        return found

    def _limit(self, said: Measuring, attempt: int, name: str) -> int | None:
        """Return the most that a job can ask for: what a worker has, or the largest node."""
        limit = _whole(_of_attempt(said["most"], attempt).get(name))
        largest = said.get("largest")
        if limit is None and name == "memory" and largest:
            return _whole(_of_attempt(largest, attempt))
        return limit

    def _after_failure(self, rule: str, key: str, attempt: int) -> Asked:
        """Return what a job asks for that has failed: more of what it has lacked."""
        said, rules = self._rules[rule], attempts_of(self._requests, rule, key)
        most, names = _of_attempt(said["most"], attempt), self._names(rule, key, attempt)
        before, sent = self._sent.get((rule, key), (attempt - 1, {}))
        had = {**_of_attempt(rules, before), **sent}
        last = attempt % MOVED >= len(rules)
        kinds = self._kinds(rule, key)
        known = self._of(rule, str(most.get("pool")))
        found: Asked = {}
        for name in names:
            amount, limit = _whole(had.get(name)), _whole(most.get(name))
            if amount is None or (rule, name) in self._fixed:
                continue
            if _LACKED[name] in kinds or (last and _UNKNOWN in kinds):
                history: list[Sample] = getattr(known, name)
                more = next_request(amount, history, most=limit) or amount
                # The last attempt is not smaller because other jobs took little.
                stated = _whole(_of_attempt(rules, attempt).get(name)) or more
                amount = (limit or max(more, stated)) if last else more
            _put(found, name, _capped(whole(amount, name), self._limit(said, attempt, name)))
        return found

    def _names(self, rule: str, key: str, attempt: int) -> list[str]:
        """Return which amounts of a job follow from what others took: not those of its own."""
        names: list[str] = _of_attempt(self._rules[rule]["names"], attempt)
        own = self._own(rule, key)
        return [name for name in names if name not in own]

    def _own(self, rule: str, key: str) -> list[str]:
        """Return which amounts were given to a job, of its dataset or file."""
        said = self._rules[rule]
        apart = said.get("apart")
        if not apart:
            return []
        return at_place(apart, dict(zip(said["wildcards"], key.split("/"), strict=False))) or []

    def _kinds(self, rule: str, key: str) -> set[str]:
        """Return what the last attempt of a job, or of those of a bundle, died of."""
        fate = sites.system(self._requests["system"]).fate
        found: set[str] = set()
        for job in self._members(rule, key):
            if died := failures.earlier(self._build, rule, job.key, fate):
                found.add(str(died[-1]["kind"]))
        return found

    def sized(
        self, rule: str, key: str, attempt: int, found: Mapping[str, object]
    ) -> dict[str, object]:
        """Return resources of a job that are not those which ``found``, the profile's, has."""
        said = self._rules[rule]
        base = _of_attempt(attempts_of(self._requests, rule, key), attempt)
        then = self._resources(said, base, attempt)
        for name, resource in _RESOURCE.items():
            # What a person has written into the site's profile has the last word.
            if base.get(name) is not None and found.get(resource) != then.get(resource):
                self._fixed.add((rule, name))
        asked = self.asked(rule, key, attempt)
        if not asked:
            return {}
        now = self._resources(said, {**base, **asked}, attempt)
        own = {
            name: value
            for name, value in now.items()
            # A partition that a person has written into the site's profile stays, too.
            if value != then.get(name) and found.get(name, then.get(name)) == then.get(name)
        }
        if "mem_mb" in own and "mem_mib" in found:  # Snakemake's own, of the same
            own["mem_mib"] = math.ceil(Fraction((_whole(own["mem_mb"]) or 0) * 10**6, 2**20))
        return {**own, "attempt": self._word(rule, key, attempt)}

    def _resources(
        self, said: Measuring, asked: Mapping[str, object], number: int
    ) -> dict[str, object]:
        time = _whole(asked.get("walltime"))
        if time is not None:  # that of all jobs of a bundle
            longest = _of_attempt(said["longest"], number) or time * said["together"]
            time = max(time, min(time * said["together"], longest))
        request = ResourceRequest(
            cpus=_whole(asked.get("cpus")) or 1,
            memory=_whole(asked.get("memory")),
            gpus=_whole(asked.get("gpus")) or 0,
            walltime=time,
        )
        # A partition or flavour follows from the amounts.
        attempt = Attempt(str(asked.get("pool")), request, _of_attempt(said["options"], number))
        system = sites.system(self._requests["system"])
        return {**sites.common_resources(attempt), **system.resources(attempt)}

    def refresh(self, jobs: Iterable[SnakemakeJob], running: Iterable[SnakemakeJob]) -> None:
        """Take in what jobs took that have ended, and let those that wait ask for what follows."""
        under_way = {*running}
        for job in [job for job in self._running if job not in under_way]:
            rule, key = self._running.pop(job)
            if self._own(rule, key):
                continue  # what is said of some jobs is said because they are not like others
            for one in self._members(rule, key):
                if (took := taken_by(self._build, one, self._counted())) is not None:
                    self._of(rule, took.pool).add(took.memory, took.seconds, took.events)
        for job in jobs:
            if (name := self.name(job)) is not None and self._is_old(job, *name):
                job.attempt = job.attempt  # which lets Snakemake evaluate anew what it asks for

    def _is_old(self, job: SnakemakeJob, rule: str, key: str) -> bool:
        """Whether a job asks for something else than it would if that was evaluated now."""
        return str(job.resources["attempt"]) != self._word(rule, key, self._number(job))

    def _word(self, rule: str, key: str, attempt: int) -> str:
        asked = self.asked(rule, key, attempt)
        return word(attempt, _whole(asked.get("memory")), _whole(asked.get("walltime")))

    def chosen(self, jobs: Iterable[SnakemakeJob]) -> None:
        """Take in which jobs are sent out now."""
        for job in jobs:
            if (name := self.name(job)) is not None:
                self._running[job] = name
                self._sent[name] = self._number(job), self.asked(*name, self._number(job))

    def name(self, job: SnakemakeJob) -> _Name | None:
        """Return the rule and key of a job that is measured."""
        rule = getattr(getattr(job, "rule", None), "name", None)
        return (rule, self.key(rule, job.wildcards_dict)) if rule in self._rules else None

    def key(self, rule: str, wildcards: Mapping[str, object]) -> str:
        """Return the key of a job by its wildcards."""
        return "/".join(str(wildcards[name]) for name in self._rules[rule]["wildcards"])

    def measures(self, rule: str) -> bool:
        """Whether jobs of a rule ask for what others took."""
        return rule in self._rules

    def _of(self, rule: str, pool: str) -> _Known:
        return self._known.setdefault((rule, pool), _Known())

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
        """Return how many entries a job reads, the most of those in a bundle."""
        sizes = [events_of(job, self._counted()) for job in self._members(rule, key)]
        known = [one for one in sizes if one is not None]
        return max(known) if known and len(known) == len(sizes) else None


def _of_attempt(values: Sequence[_Value], attempt: int) -> _Value:
    return values[min(attempt, len(values)) - 1]


def _capped(amount: int, most: object) -> int:
    limit = _whole(most)
    return amount if limit is None else min(amount, limit)


def _put(asked: Asked, name: str, amount: int) -> None:
    if name == "memory":
        asked["memory"] = amount
    else:
        asked["walltime"] = amount


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
