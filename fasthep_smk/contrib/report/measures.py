"""What the jobs of a build folder took, in numbers: by rule and pool, over time, end to end."""

from __future__ import annotations

import heapq
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fasthep_smk.contrib.report.facts import JobFacts
from fasthep_smk.plan.sizes import LEAST_JOBS, Sample, proposal
from fasthep_smk.storage.queue import Waited

__all__ = [
    "Concurrency",
    "PoolUse",
    "Requested",
    "RuleUse",
    "Step",
    "concurrency",
    "critical_path",
    "lanes",
    "pools",
    "queue_waits",
    "requested",
    "rules",
    "speed",
]

#: The least share that must be saved before anything is advised.
_LEAST_SAVED = 0.2
#: Seconds; in a shorter job, what it used of its cores says little.
_LONG = 1.0
#: Points of a curve; more cannot be told apart.
_POINTS = 1000


@dataclass(frozen=True, kw_only=True)
class RuleUse:
    """What the finished jobs of a rule took in a pool: seconds and bytes, ``None`` if not known.

    ``earlier`` are those of an earlier run; ``wait`` is the median wait in the batch system, and
    ``least``, ``median``, ``most`` and ``total`` are of run times. ``cpu`` is the time on CPUs as a
    share of what they were given: run time times cpus. ``speed``: see `speed`.
    """

    rule: str
    pool: str
    jobs: int
    earlier: int
    retries: int
    wait: float | None
    least: float
    median: float
    most: float
    total: float
    cpu: float | None
    memory: int
    asked_memory: int | None
    read: int | None
    written: int | None
    events: int | None
    speed: float | None


def rules(jobs: Iterable[JobFacts]) -> list[RuleUse]:
    """Return what the finished jobs of each rule took in each pool."""
    groups: dict[tuple[str, str], list[JobFacts]] = defaultdict(list)
    for job in jobs:
        groups[job.rule, job.pool].append(job)
    return [_row(rule, pool, found) for (rule, pool), found in groups.items()]


def _row(rule: str, pool: str, jobs: list[JobFacts]) -> RuleUse:
    times = [job.seconds for job in jobs]
    waits = queue_waits(jobs)
    asked = [job.asked_memory for job in jobs if job.asked_memory]
    given = sum(job.seconds * job.threads for job in jobs)
    return RuleUse(
        rule=rule,
        pool=pool,
        jobs=len(jobs),
        earlier=sum(not job.is_new for job in jobs),
        retries=sum(job.retries for job in jobs),
        wait=statistics.median(waits) if waits else None,
        least=min(times),
        median=statistics.median(times),
        most=max(times),
        total=sum(times),
        cpu=sum(job.cpu for job in jobs) / given if given else None,
        memory=max(job.memory for job in jobs),
        asked_memory=max(asked) if asked else None,
        read=_sum(job.read for job in jobs),
        written=_sum(job.written for job in jobs),
        events=_sum(job.events for job in jobs),
        speed=speed(jobs),
    )


def speed(jobs: Iterable[JobFacts]) -> float | None:
    """Return the events that jobs of partitions get done in a second of their run time."""
    counted = [job for job in jobs if job.events is not None]
    seconds = sum(job.seconds for job in counted)
    return sum(job.events or 0 for job in counted) / seconds if seconds else None


def queue_waits(jobs: Iterable[JobFacts]) -> list[float]:
    """Return for how long batch jobs waited in the queue; a bundle waits once."""
    starts: dict[tuple[float, str], float] = {}
    for job in jobs:
        if job.submitted is not None:
            # Jobs of a bundle are submitted as one.
            name = (job.submitted, f"{job.rule} {job.host}")
            starts[name] = min(job.started, starts.get(name, math.inf))
    return [max(0.0, start - submitted) for (submitted, _), start in starts.items()]


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


@dataclass(frozen=True)
class Requested:
    """What the jobs of a pool asked for and the most that one of them took.

    ``amount`` is ``memory`` in bytes, ``time`` in seconds or ``cores``; ``advised`` is what would
    do, and ``saved`` the share that this saves; ``None``: there is nothing to advise.
    """

    pool: str
    amount: str
    jobs: int
    asked: int
    used: float
    rule: str
    advised: int | None
    saved: float | None


def requested(jobs: Iterable[JobFacts]) -> list[Requested]:
    """Return what was asked for in each pool, and what would do.

    Of memory and time that is what ``fasthep-smk sizes`` proposes for the rule that needs most; it
    is advised only if all jobs of the pool asked for the same and none died for want of it.
    """
    pools: dict[str, list[JobFacts]] = defaultdict(list)
    for job in jobs:
        pools[job.pool].append(job)
    return [one for pool, found in pools.items() for one in _requested(pool, found)]


def _requested(pool: str, jobs: list[JobFacts]) -> Iterator[Requested]:
    amounts: dict[str, list[tuple[int | None, float]]] = {
        "memory": [(job.asked_memory, float(job.memory)) for job in jobs],
        "time": [(job.asked_time, job.seconds) for job in jobs],
        # One core is the least, and of a short job it is the start that counts.
        "cores": [
            (job.asked_cpus, job.cpu / job.seconds if job.seconds >= _LONG else 1.0)
            for job in jobs
            if (job.asked_cpus or 1) > 1
        ],
    }
    for amount, pairs in amounts.items():
        known = [asked for asked, _ in pairs if asked]
        if not known:
            continue
        used = [took for _, took in pairs]
        most = max(used)
        of = [job for job in jobs if amount != "cores" or (job.asked_cpus or 1) > 1]
        advised = max(1, math.ceil(most)) if amount == "cores" else _proposed(of, used, amount)
        sure = len(pairs) >= LEAST_JOBS and most > 0 and len({asked for asked, _ in pairs}) == 1
        sure &= not (amount == "memory" and any(job.for_memory for job in jobs))
        sure &= amount != "cores" or all(job.seconds >= _LONG for job in of)
        is_advised = sure and advised <= known[0] * (1 - _LEAST_SAVED)
        yield Requested(
            pool=pool,
            amount=amount,
            jobs=len(pairs),
            asked=max(known),
            used=most,
            rule=of[used.index(most)].rule,
            advised=advised if is_advised else None,
            saved=1 - advised / max(known) if is_advised else None,
        )


def _proposed(jobs: Sequence[JobFacts], used: Sequence[float], amount: str) -> int:
    """Return what is proposed for that rule of a pool which needs most; the rules share a pool."""
    rules: dict[str, list[Sample]] = defaultdict(list)
    for job, took in zip(jobs, used, strict=True):
        rules[job.rule].append(Sample(took, job.events))
    name = {"memory": "memory", "time": "walltime"}[amount]
    return max(proposal(history, name) or 0 for history in rules.values())


@dataclass(frozen=True)
class Step:
    """A job on the critical path, and for how long it waited when it could have begun."""

    rule: str
    key: str
    waited: float
    seconds: float
    ended: float


def critical_path(jobs: Sequence[JobFacts]) -> list[Step]:
    """Return the chain of jobs that set the end: each waited for the end of the one before it."""
    if not jobs:
        return []
    by_folder = {job.folder: job for job in jobs}
    one: JobFacts | None = max(jobs, key=lambda job: job.ended)
    steps: list[Step] = []
    while one is not None:
        before = [by_folder[folder] for folder in one.reads if folder in by_folder]
        before = [job for job in before if job.ended <= one.ended and job is not one]
        last = max(before, key=lambda job: job.ended, default=None)
        since = last.ended if last else one.waited_from
        waited = 0.0 if since is None else max(0.0, one.started - since)
        steps.append(Step(one.rule, one.key, waited, one.seconds, one.ended))
        one = last
    return steps[::-1]


def lanes(jobs: Sequence[JobFacts]) -> tuple[list[str], list[int], list[float]]:
    """Return places for the jobs on a timeline: rows, each job's row, and since when it is grey.

    Rows are of a pool on a host, as many as jobs ran there at a time. Grey is the time that a job
    waited, as far as its row is free.
    """
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, job in enumerate(jobs):
        groups[job.pool, job.host].append(number)
    names: list[str] = []
    row, grey = [0] * len(jobs), [job.started for job in jobs]
    for (pool, host), members in sorted(groups.items()):
        free: list[tuple[float, int]] = []
        for number in sorted(members, key=lambda one: jobs[one].started):
            job, until = jobs[number], -math.inf
            if free and free[0][0] <= job.started:
                until, row[number] = heapq.heappop(free)
            else:
                row[number] = len(names)
                names.append(f"{pool} @ {host}")
            if job.waited_from is not None:
                grey[number] = min(job.started, max(job.waited_from, until))
            heapq.heappush(free, (job.ended, row[number]))
    return names, row, grey


@dataclass(frozen=True)
class PoolUse:
    """How many jobs of a pool ran and waited at a time, against its limit.

    ``unit`` is ``jobs`` or, of all jobs on the machine, ``cores``. ``mean`` and ``waiting`` are
    means over the time in which jobs of the pool ran or waited; ``full`` is the share of it in
    which as many ran as may. ``reasons`` are how many jobs waited for each, at most, by what the
    batch system said.
    """

    pool: str
    unit: str
    limit: int | None
    most: int
    mean: float
    waiting: float
    full: float | None
    reasons: Mapping[str, int]


def pools(
    jobs: Sequence[JobFacts],
    limits: Mapping[str, int],
    cores: int | None = None,
    waited: Iterable[Waited] = (),
) -> list[PoolUse]:
    """Return for each pool how many of its jobs ran and waited at a time.

    With ``cores``, the last is of all jobs on the machine, in cores.
    """
    groups: dict[str, list[JobFacts]] = defaultdict(list)
    for job in jobs:
        groups[job.pool].append(job)
    reasons: dict[str, dict[str, int]] = defaultdict(dict)
    for one in waited:
        known = reasons[one.pool]
        known[one.reason] = max(one.jobs, known.get(one.reason, 0))
        groups.setdefault(one.pool, [])
    found = []
    for pool, members in sorted(groups.items()):
        why = dict(sorted(reasons[pool].items(), key=lambda one: -one[1]))
        use = _use(pool, "jobs", [(job, 1) for job in members], limits.get(pool))
        found.append(replace(use, reasons=why))
    if cores is not None and jobs:
        found.append(_use("", "cores", [(job, job.threads) for job in jobs], cores))
    return found


def _use(pool: str, unit: str, jobs: Iterable[tuple[JobFacts, int]], limit: int | None) -> PoolUse:
    changes: dict[float, list[int]] = defaultdict(lambda: [0, 0])
    for job, many in jobs:
        changes[job.started][0] += many
        changes[job.ended][0] -= many
        if job.waited_from is not None:
            changes[job.waited_from][1] += many
            changes[job.started][1] -= many
    most = running = waiting = 0
    busy = ran = stood = full = 0.0
    before = 0.0
    for time, (more, wait) in sorted(changes.items()):
        took = time - before
        if running or waiting:
            busy += took
            ran += running * took
            stood += waiting * took
            full += took if limit is not None and running >= limit else 0.0
        before, running, waiting = time, running + more, waiting + wait
        most = max(most, running)
    return PoolUse(
        pool=pool,
        unit=unit,
        limit=limit,
        most=most,
        mean=ran / busy if busy else 0.0,
        waiting=stood / busy if busy else 0.0,
        full=full / busy if busy and limit is not None else None,
        reasons={},
    )


@dataclass(frozen=True)
class Concurrency:
    """How many jobs waited at a time that could have run, and how many ran in each pool.

    ``times`` are seconds since 1970; from each to the next, the numbers hold.
    """

    times: Sequence[float]
    waiting: Sequence[int]
    running: Mapping[str, Sequence[int]]


def concurrency(jobs: Sequence[JobFacts]) -> Concurrency:
    """Return how many jobs ran and waited at a time."""
    pools = sorted({job.pool for job in jobs})
    changes: dict[float, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for job in jobs:
        started = round(job.started, 2)
        changes[started][job.pool] += 1
        changes[round(job.ended, 2)][job.pool] -= 1
        if job.waited_from is not None:
            changes[round(job.waited_from, 2)][""] += 1
            changes[started][""] -= 1
    now, times = dict.fromkeys(["", *pools], 0), sorted(changes)
    every = max(1, math.ceil(len(times) / _POINTS))
    kept: list[float] = []
    curves: dict[str, list[int]] = {pool: [] for pool in now}
    for number, time in enumerate(times):
        for pool, change in changes[time].items():
            now[pool] += change
        if number % every == 0 or number == len(times) - 1:
            kept.append(time)
            for pool, many in now.items():
                curves[pool].append(many)
    return Concurrency(kept, curves.pop(""), curves)
