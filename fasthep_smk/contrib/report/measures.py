"""What the jobs of a build folder took, in numbers: by rule and pool, and over time."""

from __future__ import annotations

import heapq
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from fasthep_smk.contrib.report.facts import JobFacts, grouped

#: Points of a curve; more cannot be told apart.
_POINTS = 1000


@dataclass(frozen=True, kw_only=True)
class RuleUse:
    """What the finished jobs of a rule took in a pool: seconds and bytes, ``None`` if not known.

    ``earlier`` are those of an earlier run; ``wait`` is the median wait in the batch system, and
    ``least``, ``median``, ``most`` and ``total`` are of run times. ``cpu`` is the time on CPUs as a
    share of what they were given: run time times cpus. ``speed`` is in events of partitions per
    second of run time.
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
    asked_time: int | None
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
    groups = grouped(jobs, lambda job: (job.rule, job.pool))
    return [_use(rule, pool, members) for (rule, pool), members in groups.items()]


def _use(rule: str, pool: str, jobs: Sequence[JobFacts]) -> RuleUse:
    times = [job.seconds for job in jobs]
    waits = queue_waits(jobs)
    granted = sum(job.seconds * job.threads for job in jobs)
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
        asked_time=max(job.asked_time or 0 for job in jobs) or None,
        total=sum(times),
        cpu=sum(job.cpu for job in jobs) / granted if granted else None,
        memory=max(job.memory for job in jobs),
        asked_memory=max(job.asked_memory or 0 for job in jobs) or None,
        read=_sum(job.read for job in jobs),
        written=_sum(job.written for job in jobs),
        events=_sum(job.events for job in jobs),
        speed=_speed(jobs),
    )


def _speed(jobs: Iterable[JobFacts]) -> float | None:
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


def lanes(jobs: Sequence[JobFacts]) -> tuple[list[str], list[int], list[float]]:
    """Return places for the jobs on a timeline: rows, each job's row, and since when it is grey.

    Rows are of a pool on a host, as many as jobs ran there at a time. Grey is the time that a job
    waited, as far as its row is free.
    """
    names: list[str] = []
    row, grey = [0] * len(jobs), [job.started for job in jobs]
    free: dict[str, list[tuple[float, int]]] = defaultdict(list)  # since when, and which row
    order = [(job.pool, job.host, job.started, number) for number, job in enumerate(jobs)]
    for pool, host, started, number in sorted(order):
        job, until, rows = jobs[number], -math.inf, free[f"{pool} @ {host}"]
        if rows and rows[0][0] <= started:
            until, row[number] = heapq.heappop(rows)
        else:
            row[number] = len(names)
            names.append(f"{pool} @ {host}")
        if job.waited_from is not None:
            grey[number] = min(started, max(job.waited_from, until))
        heapq.heappush(rows, (job.ended, row[number]))
    return names, row, grey


def at_a_time(spans: Iterable[tuple[float, float]]) -> list[tuple[float, int]]:
    """Return moments, and how many spans of time hold each of them and those up to the next."""
    changes = Counter[float]()
    for begin, end in spans:
        changes[begin] += 1
        changes[end] -= 1
    times = sorted(changes)
    curve = [*zip(times, accumulate(changes[time] for time in times), strict=True)]
    return [*curve[:: len(curve) // _POINTS + 1], *curve[-1:]]
