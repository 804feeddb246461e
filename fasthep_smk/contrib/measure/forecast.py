"""``fasthep-smk forecast``: what is left of a run will take, by what jobs of its folder took.

These are of a sample, or of an earlier run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from tabulate import tabulate

from fasthep_smk import sites
from fasthep_smk.cli.steps import imagined, placed
from fasthep_smk.cli.why import unbundled
from fasthep_smk.contrib.measure.extrapolation import Done, Forecast, Work, forecast
from fasthep_smk.contrib.report.facts import Facts, JobFacts, gather
from fasthep_smk.plan.partitions import Partition, counting
from fasthep_smk.plan.rules import Rule
from fasthep_smk.reuse.store import read
from fasthep_smk.run import pipeline
from fasthep_smk.run.lock import Held
from fasthep_smk.storage import layout
from fasthep_smk.storage.record import Record
from fasthep_smk.translate.translation import Placed
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.units import about_bytes, format_duration

__all__ = ["as_data", "as_text", "do_forecast", "forecast_of", "not_done", "of_rest"]

_HOUR = 3600


def do_forecast(options: argparse.Namespace) -> int:
    """Print what the rest of a run will take."""
    try:
        with imagined(options) as translation:
            outcome = unbundled(pipeline.dry_run(translation), translation)
            found = forecast_of(translation, outcome.folders)
    except Held:  # by a run, which has taken over what it could
        with placed(options) as translated:
            found = forecast_of(translated, not_done(translated))
    if options.json:
        print(json.dumps(as_data(found), indent=1))
    else:
        print(as_text(found), end="")
    return 0


def of_rest(placed: Placed) -> str:
    """Return a line on what a run of a sample has left."""
    rest = _line(forecast_of(placed, not_done(placed)))
    return rest.replace("forecast:", "forecast of the rest, without a sample:", 1)


def as_data(found: Forecast) -> JsonObject:
    """Return the forecast as plain data: seconds and bytes."""
    return asdict(found)


def as_text(found: Forecast) -> str:
    """Return the forecast as tables."""
    left = [one for one in found.rules if one.to_do]
    if not left:
        return "everything is done: there is nothing to forecast\n"
    rules = [
        [
            one.rule,
            one.done,
            one.to_do,
            "?" if one.seconds is None else _seconds(one.seconds / one.to_do),
            "?" if one.seconds is None else _hours(one.core_seconds),
            "?" if one.memory is None else about_bytes(one.memory),
            "?" if one.disk is None else about_bytes(int(one.disk)),
        ]
        for one in left
    ]
    pools = [
        [
            one.pool,
            one.jobs,
            "any" if one.at_a_time is None else one.at_a_time,
            "-" if one.rounds is None else one.rounds,
            "?" if one.memory is None else about_bytes(one.memory),
            "?" if one.together is None else about_bytes(one.together),
        ]
        for one in found.pools
        if one.jobs
    ]
    right = ("left", *["right"] * 6)
    sections = [
        tabulate(
            rules,
            headers=["rule", "done", "to do", "each", "core-hours", "memory", "disk"],
            colalign=right,
            disable_numparse=True,
        ),
        tabulate(
            pools,
            headers=["pool", "jobs", "at a time", "rounds", "memory of a job", "of all at a time"],
            colalign=right[:-1],
            disable_numparse=True,
        ),
        _line(found),
    ]
    return "\n\n".join(sections) + "\n"


def _line(found: Forecast) -> str:
    """Return the forecast in a sentence, or two."""
    end = time.strftime("%a %d %b, %H:%M", time.localtime(time.time() + found.seconds))
    jobs = sum(one.jobs for one in found.pools)
    text = (
        f"forecast: {jobs} jobs, {_hours(found.core_seconds)} core-hours, "
        f"{about_bytes(int(found.disk))} on disk; it takes {_seconds(found.seconds)}: "
        f"started now, it ends at {end}"
    )
    if found.unknown:
        text += f"\nnot counted, as no such job is done: {', '.join(found.unknown)}"
    return text


def _hours(seconds: float) -> str:
    return f"{seconds / _HOUR:.3g}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 60 else format_duration(round(seconds))


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
    facts = gather(build)
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
    events = counting((one.graph for one in placed.variations), placed.inputs)
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
