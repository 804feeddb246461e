"""A forecast of a run, by what jobs of its build folder took: of a sample, or of an earlier run."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from fasthep_smk import sites
from fasthep_smk.plan.forecast import Done, Forecast, Work, forecast
from fasthep_smk.plan.partitions import Partition
from fasthep_smk.plan.rules import Rule
from fasthep_smk.plan.sample import counting
from fasthep_smk.reuse.store import read
from fasthep_smk.storage import layout
from fasthep_smk.storage.record import Record
from fasthep_smk.translate.translation import Placed

__all__ = ["forecast_of", "not_done"]

#: Those of ``contrib.report.facts``.
Facts: TypeAlias = Any
JobFacts: TypeAlias = Any


def not_done(placed: Placed) -> set[str]:
    """Return the folders of jobs that have not left what is wanted of them, under their own name.

    A run that has ended has taken over what it could: this is what is left after it.
    """
    found: set[str] = set()
    for job in (job for rule in placed.rules for job in rule.jobs.values()):
        record = read(placed.earlier / job.folder)
        if record is None or record["signature"] != job.signature:
            found.add(job.folder)
    return found


def forecast_of(placed: Placed, to_do: Collection[str]) -> Forecast:
    """Return what is left of a run will take: all of it, not only a sample. Changes nothing.

    ``to_do`` are the folders of the jobs that would run.
    """
    build, placement = placed.earlier, placed.placement
    facts = import_module("fasthep_smk.contrib.report.facts").gather(build)
    done = {one.folder: one for one in facts.done}
    here = sites.system(placement.site.system).machine(placement.site)
    jobs = placed.settings.jobs
    cores = None if here is None else min(here.cpus, jobs or here.cpus)
    limits = dict(placement.workers)
    if here is None and jobs:
        limits = {one: min(jobs, limits.get(one, jobs)) for one in _pools(placed)}
    if here is not None and here.memory:  # shared by as many jobs as it is enough for
        for attempts in placement.attempts.values():
            pool, asked = attempts[0].pool, attempts[0].request.memory
            if asked:
                fitting = max(1, here.memory // asked)
                limits[pool] = min(limits.get(pool, fitting), fitting)
    run = facts.run
    places = dict(run.get("limits", {})) if run else {}
    events = counting(placed.variations, placed.inputs)
    between = _between(facts.new, places, run.get("cores") if run else None)
    return forecast(
        [_work(rule, placed, done, to_do, events) for rule in placed.rules],
        at_a_time=limits,
        cores=cores,
        between=between,
        around=_around(facts),
    )


def _pools(placed: Placed) -> set[str]:
    return {one[0].pool for one in placed.placement.attempts.values()}


def _work(
    rule: Rule,
    placed: Placed,
    done: Mapping[str, JobFacts],
    to_do: Collection[str],
    events: Callable[[Partition], int | None],
) -> Work:
    build = placed.earlier
    first = placed.placement.attempts[rule.name][0]
    took: list[Done] = []
    for job in rule.jobs.values():
        fact = done.get(job.folder)
        if fact is None or fact.in_part:
            continue
        record = read(build / job.folder)
        if record is not None:
            size = _bytes(build, job.folder, record)
            took.append(Done(fact.seconds, fact.memory, size, fact.events))
    left = [job for job in rule.jobs.values() if job.folder in to_do]
    if not left and placed.sample is not None and rule.scope in ("merge", "finish", "publish"):
        left = list(rule.jobs.values())  # with more partitions, it is another one
    keys = {job.key for job in left}
    bundles = [bundle for bundle in rule.bundles.values() if keys & set(bundle.jobs)]
    return Work(
        rule=rule.name,
        scope=rule.scope,
        pool=first.pool,
        cpus=max(1, first.request.cpus),
        done=took,
        to_do=[events(job.partition) if job.partition else None for job in left],
        batch_jobs=len(bundles) if rule.bundles else len(left),
    )


def _bytes(build: Path, folder: str, record: Record) -> int:
    """Return what a job's products and results take."""
    total = sum(one["size"] for one in record["results"].values())
    for place, _, names in os.walk(build / folder):
        for name in names:
            if name != layout.RECORD:
                total += Path(place, name).lstat().st_size
    return total


def _between(jobs: Sequence[JobFacts], limits: Mapping[str, int], cores: int | None) -> float:
    """Return the seconds from the end of a job to the start of the next one in its place."""
    gaps: list[float] = []
    for pool in {one.pool for one in jobs}:
        mine = [one for one in jobs if one.pool == pool and one.dataset is not None]
        slots = limits.get(pool) or cores
        if slots:
            ends = sorted(one.ended for one in mine)
            starts = sorted(one.started for one in mine)
            pairs = zip(starts[slots:], ends, strict=False)
            gaps += [max(0.0, start - end) for start, end in pairs]
    return statistics.median(gaps) if gaps else 0.0


def _around(facts: Facts) -> float:
    """Return what the last run took besides its jobs: before the first and after the last."""
    run, jobs = facts.run, facts.new
    if run is None or run["ended"] is None or not jobs:
        return 0.0
    before = min(one.started for one in jobs) - run["started"]
    after = run["ended"] - max(one.ended for one in jobs)
    return float(max(0.0, before) + max(0.0, after))
