"""What is left of a run will take, by what its jobs took so far: pure functions.

Jobs of a rule take what those that are done took: on a line through their events where one explains
it, else as many times the mean. What is said with ``±`` is twice the standard deviation of the sum:
of the single jobs, and of how well a few of them tell the mean.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fasthep_smk.plan.sizes import Sample, line_through, proposal

__all__ = ["Done", "Expected", "Forecast", "OfPool", "OfRule", "Work", "forecast"]

#: The order in which parts of a run follow each other.
_PHASES = ("side", "partition", "merge", "finish", "publish")
#: One job does not say how others differ from it: by as large a share of it.
_OF_ONE = 0.5


@dataclass(frozen=True)
class Done:
    """What a job took: seconds, bytes of memory and disk, and its events, if they are known."""

    seconds: float
    memory: int = 0
    disk: int = 0
    events: int | None = None


@dataclass(frozen=True, kw_only=True)
class Work:
    """The jobs of a rule: what those took that are done, and the events of those to do.

    ``batch_jobs`` is how many jobs of a batch system, or of Snakemake's, those to do are.
    """

    rule: str
    scope: str
    pool: str
    cpus: int = 1
    done: Sequence[Done] = ()
    to_do: Sequence[int | None] = ()
    batch_jobs: int = 0


@dataclass(frozen=True)
class Expected:
    """A value and by how much it may be off."""

    value: float = 0.0
    off: float = 0.0

    def __add__(self, other: Expected) -> Expected:
        return Expected(self.value + other.value, math.hypot(self.off, other.off))

    def times(self, factor: float) -> Expected:
        return Expected(self.value * factor, self.off * factor)


@dataclass(frozen=True, kw_only=True)
class OfRule:
    """The jobs of a rule that are to do; ``None``: no such job is done. Seconds and bytes.

    ``memory`` is what the largest of them should ask for.
    """

    rule: str
    pool: str
    done: int
    to_do: int
    seconds: Expected | None
    memory: int | None
    disk: Expected | None
    core_seconds: Expected = field(default_factory=Expected)


@dataclass(frozen=True, kw_only=True)
class OfPool:
    """The jobs of a pool: in how many rounds its workers do them, and what they ask for together.

    ``at_a_time`` is how many run at once, if something limits that.
    """

    pool: str
    jobs: int
    at_a_time: int | None
    rounds: int | None
    memory: int | None
    together: int | None


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What is left of a run takes; ``unknown`` are rules of which no job is done."""

    rules: list[OfRule]
    pools: list[OfPool]
    core_seconds: Expected
    disk: Expected
    seconds: Expected
    unknown: list[str]


def forecast(
    works: Iterable[Work],
    *,
    at_a_time: Mapping[str, int],
    cores: int | None = None,
    between: float = 0.0,
    around: float = 0.0,
) -> Forecast:
    """Return what is left of a run will take.

    ``at_a_time`` is how many jobs of a pool run at once where that is limited; all share ``cores``
    if there is one machine. ``between`` are seconds from the end of a job to the start of the next
    in its place, ``around`` those before the first job and after the last.
    """
    works = list(works)
    rules = [_of_rule(one) for one in works]
    pools = list(_pools(works, rules, at_a_time, cores))
    total = _sum(one.core_seconds for one in rules)
    seconds = Expected(around if any(one.to_do for one in rules) else 0.0)
    for phase in _PHASES:
        here = [(work, of) for work, of in zip(works, rules, strict=True) if work.scope == phase]
        seconds += _phase(here, at_a_time, cores, between)
    return Forecast(
        rules=rules,
        pools=pools,
        core_seconds=total,
        disk=_sum(one.disk for one in rules if one.disk is not None),
        seconds=seconds,
        unknown=[one.rule for one in rules if one.to_do and one.seconds is None],
    )


def _of_rule(work: Work) -> OfRule:
    known = bool(work.done)
    seconds = _expected([Sample(one.seconds, one.events) for one in work.done], work.to_do)
    disk = _expected([Sample(float(one.disk), one.events) for one in work.done], work.to_do)
    memory = [Sample(one.memory, one.events) for one in work.done if one.memory]
    return OfRule(
        rule=work.rule,
        pool=work.pool,
        done=len(work.done),
        to_do=len(work.to_do),
        seconds=seconds if known else None,
        memory=proposal(memory, "memory"),
        disk=disk if known else None,
        core_seconds=seconds.times(work.cpus),
    )


def _expected(samples: Sequence[Sample], sizes: Sequence[float | None]) -> Expected:
    """Return what jobs of these sizes take together."""
    number, seen = len(sizes), len(samples)
    if not number or not seen:
        return Expected()
    mean = statistics.fmean(one.amount for one in samples)
    values, spread = [mean] * number, _OF_ONE * mean
    line = line_through(samples) if None not in sizes else None
    if line is not None:
        slope, start = line
        left = [one.amount - start - slope * (one.size or 0) for one in samples]
        mean = statistics.fmean(left)  # jobs far from the line count, too
        values = [max(0.0, start + mean + slope * (size or 0)) for size in sizes]
        spread = math.sqrt(sum((one - mean) ** 2 for one in left) / (seen - 2))
    elif seen > 1:
        spread = statistics.stdev(one.amount for one in samples)
    return Expected(sum(values), 2 * spread * math.sqrt(number + number**2 / seen))


def _phase(
    here: Sequence[tuple[Work, OfRule]],
    at_a_time: Mapping[str, int],
    cores: int | None,
    between: float,
) -> Expected:
    """Return how long jobs take that follow each other at most by their partitions."""
    chain, waves = Expected(), dict[str, Expected]()
    shared = Expected()
    for work, of in here:
        if of.seconds is None or not of.to_do:
            continue
        each = of.seconds.times(1 / of.to_do)
        chain += Expected(each.value + between, each.off)
        taken = of.seconds + Expected(work.batch_jobs * between)
        slots = at_a_time.get(work.pool)
        if slots:
            waves[work.pool] = waves.get(work.pool, Expected()) + taken.times(1 / slots)
        if cores:
            shared += taken.times(min(work.cpus, cores) / cores)
    return max([chain, shared, *waves.values()], key=lambda one: one.value)


def _pools(
    works: Sequence[Work],
    rules: Sequence[OfRule],
    at_a_time: Mapping[str, int],
    cores: int | None,
) -> Iterable[OfPool]:
    for pool in dict.fromkeys(one.pool for one in works):
        mine = [(work, of) for work, of in zip(works, rules, strict=True) if work.pool == pool]
        jobs = sum(work.batch_jobs for work, _ in mine)
        known = [of.memory for work, of in mine if of.memory is not None and work.to_do]
        memory = max(known, default=None)
        cpus = max(work.cpus for work, _ in mine)
        limits = [at_a_time.get(pool), max(1, cores // cpus) if cores else None]
        slots = min((one for one in limits if one), default=None)
        yield OfPool(
            pool=pool,
            jobs=jobs,
            at_a_time=slots,
            rounds=math.ceil(jobs / slots) if slots else None,
            memory=memory,
            together=memory * min(slots or jobs, jobs) if memory is not None else None,
        )


def _sum(each: Iterable[Expected]) -> Expected:
    return sum(each, start=Expected())
