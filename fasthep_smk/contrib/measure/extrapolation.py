"""What is left of a run will take, by what its jobs took so far: pure functions.

Jobs of a rule take what those that are done took: on a line through their events where one explains
it, else as many times the mean.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fasthep_smk.plan.sizes import Sample, line_through, proposal

__all__ = ["Done", "Forecast", "OfPool", "OfRule", "Work", "forecast"]

#: The order in which parts of a run follow each other.
_PHASES = ("side", "partition", "merge", "finish", "publish")


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


@dataclass(frozen=True, kw_only=True)
class OfRule:
    """The jobs of a rule that are to do; ``None``: no such job is done. Seconds and bytes.

    ``memory`` is what the largest of them should ask for.
    """

    rule: str
    pool: str
    done: int
    to_do: int
    seconds: float | None
    memory: int | None
    disk: float | None
    core_seconds: float


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
    core_seconds: float
    disk: float
    seconds: float
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
    seconds = around if any(one.to_do for one in rules) else 0.0
    for phase in _PHASES:
        here = [(work, of) for work, of in zip(works, rules, strict=True) if work.scope == phase]
        seconds += _phase(here, at_a_time, cores, between)
    return Forecast(
        rules=rules,
        pools=pools,
        core_seconds=math.fsum(one.core_seconds for one in rules),
        disk=math.fsum(one.disk or 0.0 for one in rules),
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
        core_seconds=seconds * work.cpus,
    )


def _expected(samples: Sequence[Sample], sizes: Sequence[float | None]) -> float:
    """Return what jobs of these sizes take together."""
    if not samples:
        return 0.0
    line = line_through(samples) if None not in sizes else None
    if line is None:
        return len(sizes) * statistics.fmean(one.amount for one in samples)
    slope, start = line
    # Jobs far from the line count, too.
    start += statistics.fmean(one.amount - start - slope * (one.size or 0) for one in samples)
    return math.fsum(max(0.0, start + slope * (size or 0)) for size in sizes)


def _phase(
    here: Sequence[tuple[Work, OfRule]],
    at_a_time: Mapping[str, int],
    cores: int | None,
    between: float,
) -> float:
    """Return how long jobs take that follow each other at most by their partitions."""
    chain, shared, waves = 0.0, 0.0, dict[str, float]()
    for work, of in here:
        if of.seconds is None or not of.to_do:
            continue
        chain += of.seconds / of.to_do + between
        taken = of.seconds + work.batch_jobs * between
        if slots := at_a_time.get(work.pool):
            waves[work.pool] = waves.get(work.pool, 0.0) + taken / slots
        if cores:
            shared += taken * min(work.cpus, cores) / cores
    return max([chain, shared, *waves.values()])


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
