"""``fasthep-smk forecast``: what is left of a run will take, by what jobs of its folder took.

These are of a sample, or of an earlier run. Jobs of a rule take what those that are done took: on a
line through their events where one explains it, else as many times the mean.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tabulate import tabulate

from fasthep_smk import sites
from fasthep_smk.cli.steps import imagined, placed
from fasthep_smk.cli.why import unbundled
from fasthep_smk.contrib.report.facts import Facts, JobFacts, gather
from fasthep_smk.plan.partitions import Partition, counting
from fasthep_smk.plan.rules import Rule
from fasthep_smk.plan.sizes import MeasuredJob, line_through
from fasthep_smk.reuse.store import read
from fasthep_smk.run import pipeline
from fasthep_smk.run.lock import Held
from fasthep_smk.storage import layout
from fasthep_smk.translate.translation import Placed
from fasthep_smk.util.units import about_bytes, format_duration

#: The order in which parts of a run follow each other.
_PHASES = ("side", "partition", "merge", "finish", "publish")


@dataclass(frozen=True, kw_only=True)
class OfRule:
    """The jobs of a rule that are to do, together; ``None``: no such job is done.

    Seconds and bytes; ``batch_jobs`` is how many jobs of a batch system, or of Snakemake's, they
    are.
    """

    rule: str
    scope: str
    pool: str
    cpus: int
    done: int
    to_do: int
    batch_jobs: int
    seconds: float | None
    disk: float | None


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What is left of a run takes; ``unknown`` are rules of which no job is done."""

    rules: list[OfRule]
    jobs: int
    core_seconds: float
    disk: float
    seconds: float
    unknown: list[str]


def do_forecast(options: argparse.Namespace) -> int:
    """Print what the rest of a run will take."""
    try:
        with imagined(options) as translation:
            outcome = unbundled(pipeline.dry_run(translation), translation)
            forecast = _forecast(translation, outcome.folders)
    except Held:  # by a run, which has taken over what it could
        with placed(options) as translated:
            forecast = _forecast(translated, _not_done(translated))
    print(json.dumps(asdict(forecast), indent=1) if options.json else as_text(forecast))
    return 0


def of_rest(placed: Placed) -> str:
    """Return a line on what a run of a sample has left."""
    rest = _line(_forecast(placed, _not_done(placed)))
    return rest.replace("forecast:", "forecast of a full run after this one:", 1)


def as_text(forecast: Forecast) -> str:
    """Return the forecast as a table, and a sentence or two."""
    left = [rule for rule in forecast.rules if rule.to_do]
    if not left:
        return "all jobs are done: there is nothing to forecast"
    rows = [
        [
            rule.rule,
            rule.pool,
            rule.done,
            rule.to_do,
            "?" if rule.seconds is None else _seconds(rule.seconds / rule.to_do),
            "?" if rule.seconds is None else _hours(rule.seconds * rule.cpus),
            "?" if rule.disk is None else about_bytes(rule.disk),
        ]
        for rule in left
    ]
    headers = ["rule", "pool", "done", "to do", "each", "core-hours", "disk"]
    right = ("left", "left", *["right"] * 5)
    table = tabulate(rows, headers=headers, colalign=right, disable_numparse=True)
    return f"{table}\n\n{_line(forecast)}"


def _line(forecast: Forecast) -> str:
    end = time.strftime("%a %d %b, %H:%M", time.localtime(time.time() + forecast.seconds))
    text = (
        f"forecast: {forecast.jobs} jobs, {_hours(forecast.core_seconds)} core-hours, "
        f"{about_bytes(forecast.disk)} on disk, {_seconds(forecast.seconds)}; "
        f"a run that starts now ends at {end}"
    )
    if forecast.unknown:
        rules = ", ".join(forecast.unknown)
        text += f"\nnot included, because no job of these rules is done yet: {rules}"
    return text


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.3g}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 60 else format_duration(round(seconds))


def _not_done(placed: Placed) -> set[str]:
    """Return the folders of jobs that have not left what is wanted of them, under their own name.

    A run that has ended has taken over what it could: this is what is left after it.
    """
    jobs = (job for rule in placed.rules for job in rule.jobs.values())
    records = ((job, read(placed.earlier / job.folder)) for job in jobs)
    return {
        job.folder
        for job, record in records
        if record is None or record["signature"] != job.signature
    }


def _forecast(placed: Placed, to_do: Collection[str]) -> Forecast:
    """Return what is left of a run will take: all of it, not only a sample. Changes nothing.

    ``to_do`` are the folders of the jobs that would run.
    """
    facts, placement = gather(placed.earlier), placed.placement
    done = {job.folder: job for job in facts.done if not job.in_part}
    events = counting((variation.graph for variation in placed.variations), placed.inputs)
    rules = [_of_rule(rule, placed, done, to_do, events) for rule in placed.rules]
    here = sites.system(placement.site.system).machine(placement.site)
    jobs = placed.settings.jobs
    cores = None if here is None else min(here.cpus, jobs or here.cpus)
    at_a_time = dict(placement.workers)
    for first, *_ in placement.attempts.values():
        limits = [at_a_time.get(first.pool), jobs]
        if here is not None and here.memory and first.request.memory:
            limits.append(max(1, here.memory // first.request.memory))
        if stated := [limit for limit in limits if limit]:
            at_a_time[first.pool] = min(stated)
    return total(
        rules, at_a_time=at_a_time, cores=cores, between=_between(facts), around=_around(facts)
    )


def _of_rule(
    rule: Rule,
    placed: Placed,
    done: Mapping[str, JobFacts],
    to_do: Collection[str],
    events: Callable[[Partition], int | None],
) -> OfRule:
    first = placed.placement.attempts[rule.name][0]
    took = [done[job.folder] for job in rule.jobs.values() if job.folder in done]
    left = [job for job in rule.jobs.values() if job.folder in to_do]
    if not left and placed.sample is not None and rule.scope in ("merge", "finish", "publish"):
        left = list(rule.jobs.values())  # with more partitions, it is another one
    sizes = [events(job.partition) if job.partition else None for job in left]
    keys = {job.key for job in left}
    bundles = [bundle for bundle in rule.bundles.values() if keys & set(bundle.jobs)]
    disk = [MeasuredJob(_bytes(placed.earlier, job.folder), job.events) for job in took]
    return OfRule(
        rule=rule.name,
        scope=rule.scope,
        pool=first.pool,
        cpus=max(1, first.request.cpus),
        done=len(took),
        to_do=len(left),
        batch_jobs=len(bundles) if rule.bundles else len(left),
        seconds=expected([MeasuredJob(job.seconds, job.events) for job in took], sizes),
        disk=expected(disk, sizes),
    )


def expected(samples: Sequence[MeasuredJob], sizes: Sequence[float | None]) -> float | None:
    """Return what jobs of these sizes take together; ``None``: nothing is known of any."""
    if not samples:
        return None
    line = line_through(samples) if None not in sizes else None
    if line is None:
        return len(sizes) * statistics.fmean(sample.amount for sample in samples)
    slope, start = line
    # Jobs far from the line count, too.
    start += statistics.fmean(
        sample.amount - start - slope * (sample.size or 0) for sample in samples
    )
    return math.fsum(max(0.0, start + slope * (size or 0)) for size in sizes)


def _bytes(build: Path, folder: str) -> int:
    """Return what a job's products and results take."""
    record = read(build / folder)
    results = sum(result["size"] for result in record["results"].values()) if record else 0
    kept = (path for path in (build / folder).rglob("*") if path.name != layout.RECORD)
    return results + sum(path.lstat().st_size for path in kept if not path.is_dir())


def total(
    rules: Iterable[OfRule],
    *,
    at_a_time: Mapping[str, int],
    cores: int | None = None,
    between: float = 0.0,
    around: float = 0.0,
) -> Forecast:
    """Return what the jobs of all rules will take.

    ``at_a_time`` is how many jobs of a pool run at once where that is limited; all share ``cores``
    if there is one machine. ``between`` are seconds from the end of a job to the start of the next
    in its place, ``around`` those before the first job and after the last.
    """
    rules = list(rules)
    left = [rule for rule in rules if rule.to_do and rule.seconds is not None]
    seconds = around if any(rule.to_do for rule in rules) else 0.0
    for phase in _PHASES:
        here = [rule for rule in left if rule.scope == phase]
        seconds += _phase(here, at_a_time, cores or math.inf, between)
    return Forecast(
        rules=rules,
        jobs=sum(rule.batch_jobs for rule in rules),
        core_seconds=math.fsum((rule.seconds or 0.0) * rule.cpus for rule in rules),
        disk=math.fsum(rule.disk or 0.0 for rule in rules),
        seconds=seconds,
        unknown=[rule.rule for rule in rules if rule.to_do and rule.seconds is None],
    )


def _phase(
    rules: Sequence[OfRule], at_a_time: Mapping[str, int], cores: float, between: float
) -> float:
    """Return how long jobs take that follow each other at most by their partitions."""
    chain, shared, pools = 0.0, 0.0, Counter[str]()
    for rule in rules:
        seconds = rule.seconds or 0.0
        chain += seconds / rule.to_do + between
        seconds += rule.batch_jobs * between
        shared += seconds * min(rule.cpus, cores) / cores
        pools[rule.pool] += seconds / at_a_time.get(rule.pool, math.inf)  # type: ignore[assignment]
    return max(chain, shared, *pools.values())


def _between(facts: Facts) -> float:
    """Return the seconds from the end of a job to the start of the next one in its place."""
    gaps: list[float] = []
    for pool in {job.pool for job in facts.new}:
        jobs = [job for job in facts.new if job.pool == pool and job.dataset is not None]
        limit = facts.run.get("limits", {}).get(pool) if facts.run else None
        if slots := limit or (facts.run and facts.run.get("cores")):
            starts = sorted(job.started for job in jobs)[slots:]
            ends = sorted(job.ended for job in jobs)
            gaps += [max(0.0, start - end) for start, end in zip(starts, ends, strict=False)]
    return statistics.median(gaps) if gaps else 0.0


def _around(facts: Facts) -> float:
    """Return what the last run took besides its jobs: before the first and after the last."""
    run, jobs = facts.run, facts.new
    if run is None or run["ended"] is None or not jobs:
        return 0.0
    before = min(job.started for job in jobs) - run["started"]
    after = run["ended"] - max(job.ended for job in jobs)
    return float(max(0.0, before) + max(0.0, after))
