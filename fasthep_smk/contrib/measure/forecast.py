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
from fasthep_smk.plan.sizes import MeasuredJob, line_through, proposal
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

    Seconds and bytes; ``memory`` is what the largest of them should ask for. ``batch_jobs`` is how
    many jobs of a batch system, or of Snakemake's, they are.
    """

    rule: str
    scope: str
    pool: str
    cpus: int
    done: int
    to_do: int
    batch_jobs: int
    seconds: float | None
    memory: int | None
    disk: float | None


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What is left of a run takes; ``unknown`` are rules of which no job is done.

    ``at_a_time`` is how many jobs of a pool run at once, where that is limited; ``cores`` are those
    that all share, if there is one machine.
    """

    rules: list[OfRule]
    at_a_time: Mapping[str, int]
    cores: int | None
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
            found = _forecast(translation, outcome.folders)
    except Held:  # by a run, which has taken over what it could
        with placed(options) as translated:
            found = _forecast(translated, _not_done(translated))
    print(json.dumps(asdict(found), indent=1) if options.json else as_text(found))
    return 0


def of_rest(placed: Placed) -> str:
    """Return a line on what a run of a sample has left."""
    rest = _line(_forecast(placed, _not_done(placed)))
    return rest.replace("forecast:", "forecast of the rest, without a sample:", 1)


def as_text(found: Forecast) -> str:
    """Return the forecast as a table, and a sentence or two."""
    left = [one for one in found.rules if one.to_do]
    if not left:
        return "everything is done: there is nothing to forecast"
    rows = [
        [
            one.rule,
            one.pool,
            one.done,
            one.to_do,
            _at_a_time(one, found),
            "?" if one.seconds is None else _seconds(one.seconds / one.to_do),
            "?" if one.seconds is None else _hours(one.seconds * one.cpus),
            "?" if one.memory is None else about_bytes(one.memory),
            "?" if one.disk is None else about_bytes(one.disk),
        ]
        for one in left
    ]
    headers = [
        "rule", "pool", "done", "to do", "at a time", "each", "core-hours", "memory", "disk",
    ]  # fmt: skip
    right = ("left", "left", *["right"] * 7)
    table = tabulate(rows, headers=headers, colalign=right, disable_numparse=True)
    return f"{table}\n\n{_line(found)}"


def _at_a_time(rule: OfRule, found: Forecast) -> int | str:
    limits = [found.at_a_time.get(rule.pool), found.cores and max(1, found.cores // rule.cpus)]
    return min((one for one in limits if one), default="any")


def _line(found: Forecast) -> str:
    end = time.strftime("%a %d %b, %H:%M", time.localtime(time.time() + found.seconds))
    text = (
        f"forecast: {found.jobs} jobs, {_hours(found.core_seconds)} core-hours, "
        f"{about_bytes(found.disk)} on disk, {_seconds(found.seconds)}: "
        f"a run started now ends at {end}"
    )
    if found.unknown:
        text += f"\nnot included, as no job of these is done yet: {', '.join(found.unknown)}"
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
    done = {one.folder: one for one in facts.done if not one.in_part}
    events = counting((one.graph for one in placed.variations), placed.inputs)
    rules = [_of_rule(rule, placed, done, to_do, events) for rule in placed.rules]
    here = sites.system(placement.site.system).machine(placement.site)
    jobs = placed.settings.jobs
    cores = None if here is None else min(here.cpus, jobs or here.cpus)
    at_a_time = dict(placement.workers)
    for first, *_ in placement.attempts.values():
        limits = [at_a_time.get(first.pool), jobs]
        if here is not None and here.memory and first.request.memory:
            limits.append(max(1, here.memory // first.request.memory))
        if known := [one for one in limits if one]:
            at_a_time[first.pool] = min(known)
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
    disk = [MeasuredJob(_bytes(placed.earlier, one.folder), one.events) for one in took]
    memory = [MeasuredJob(one.memory, one.events) for one in took if one.memory]
    return OfRule(
        rule=rule.name,
        scope=rule.scope,
        pool=first.pool,
        cpus=max(1, first.request.cpus),
        done=len(took),
        to_do=len(left),
        batch_jobs=len(bundles) if rule.bundles else len(left),
        seconds=expected([MeasuredJob(one.seconds, one.events) for one in took], sizes),
        memory=proposal(memory, "memory"),
        disk=expected(disk, sizes),
    )


def expected(samples: Sequence[MeasuredJob], sizes: Sequence[float | None]) -> float | None:
    """Return what jobs of these sizes take together; ``None``: nothing is known of any."""
    if not samples:
        return None
    line = line_through(samples) if None not in sizes else None
    if line is None:
        return len(sizes) * statistics.fmean(one.amount for one in samples)
    slope, start = line
    # Jobs far from the line count, too.
    start += statistics.fmean(one.amount - start - slope * (one.size or 0) for one in samples)
    return math.fsum(max(0.0, start + slope * (size or 0)) for size in sizes)


def _bytes(build: Path, folder: str) -> int:
    """Return what a job's products and results take."""
    record = read(build / folder)
    results = sum(one["size"] for one in record["results"].values()) if record else 0
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
    left = [one for one in rules if one.to_do and one.seconds is not None]
    seconds = around if any(one.to_do for one in rules) else 0.0
    for phase in _PHASES:
        here = [one for one in left if one.scope == phase]
        seconds += _phase(here, at_a_time, cores or math.inf, between)
    return Forecast(
        rules=rules,
        at_a_time=at_a_time,
        cores=cores,
        jobs=sum(one.batch_jobs for one in rules),
        core_seconds=math.fsum((one.seconds or 0.0) * one.cpus for one in rules),
        disk=math.fsum(one.disk or 0.0 for one in rules),
        seconds=seconds,
        unknown=[one.rule for one in rules if one.to_do and one.seconds is None],
    )


def _phase(
    rules: Sequence[OfRule], at_a_time: Mapping[str, int], cores: float, between: float
) -> float:
    """Return how long jobs take that follow each other at most by their partitions."""
    chain, shared, pools = 0.0, 0.0, Counter[str]()
    for one in rules:
        seconds = one.seconds or 0.0
        chain += seconds / one.to_do + between
        seconds += one.batch_jobs * between
        shared += seconds * min(one.cpus, cores) / cores
        pools[one.pool] += seconds / at_a_time.get(one.pool, math.inf)  # type: ignore[assignment]
    return max(chain, shared, *pools.values())


def _between(facts: Facts) -> float:
    """Return the seconds from the end of a job to the start of the next one in its place."""
    gaps: list[float] = []
    for pool in {one.pool for one in facts.new}:
        jobs = [one for one in facts.new if one.pool == pool and one.dataset is not None]
        limit = facts.run.get("limits", {}).get(pool) if facts.run else None
        if slots := limit or (facts.run and facts.run.get("cores")):
            starts = sorted(one.started for one in jobs)[slots:]
            ends = sorted(one.ended for one in jobs)
            gaps += [max(0.0, start - end) for start, end in zip(starts, ends, strict=False)]
    return statistics.median(gaps) if gaps else 0.0


def _around(facts: Facts) -> float:
    """Return what the last run took besides its jobs: before the first and after the last."""
    run, jobs = facts.run, facts.new
    if run is None or run["ended"] is None or not jobs:
        return 0.0
    before = min(one.started for one in jobs) - run["started"]
    after = run["ended"] - max(one.ended for one in jobs)
    return float(max(0.0, before) + max(0.0, after))
