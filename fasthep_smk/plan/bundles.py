"""Several jobs in one of Snakemake's: these are neither tiny nor many.

A bundle is one job of Snakemake's that runs jobs of a rule one after the other, each with a folder,
a record and a log of its own. How they are bundled is in no signature: what is done stays done when
the bundles change, and a bundle that is tried again runs only what it has not finished.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from statistics import median

from fasthep_smk.config.run_settings import BundleSize
from fasthep_smk.plan.partitions import Partition, Place
from fasthep_smk.plan.rules import NOMINAL, Bundle, Rule

#: Snakemake's time and memory grow with its jobs; beyond this number they hurt.
MOST_JOBS = 3000
#: Seconds of a job that is long against what it costs to start, and short enough to lose.
_SECONDS = 5.0
#: At least so many jobs of a rule are left, and so many for each that can run at once: all cores
#: have work until the end.
_FEWEST, _FOR_EACH = 32, 3
#: A shorter job costs more to start than others could gain by running at once.
_TINY = 0.5
#: As long as bundles are shorter, so many jobs for each that can run at once are enough.
_SHORT = 1.0
#: Until a rule has run once: what a job takes besides its events, and events per second.
_BESIDES, _EVENTS_PER_SECOND = 0.05, 1e6


def bundle(
    rules: Iterable[Rule],
    wanted: BundleSize = "auto",
    *,
    seconds: Callable[[Rule], Sequence[float]] = lambda _: (),
    events: Callable[[Partition], int | None] = lambda partition: partition.events,
    at_once: Callable[[Rule], int] = lambda _: 1,
    apart: Collection[str] = (),
    without: Collection[Place] = (),
) -> None:
    """Bundle the jobs of partition rules, and say why in ``rule.bundled``.

    ``seconds`` is asked for times that earlier jobs of a rule took, ``events`` for how many a
    partition has (``None``: not known), and ``at_once`` for how many jobs of a rule can run at the
    same time, 1 if that is not known; ``apart`` are rules whose jobs the batch system joins itself.
    Partitions that a run goes ``without`` share no job.
    """
    rules = list(rules)
    sizes = {
        rule.name: _size(rule, wanted, seconds, events, at_once(rule))
        for rule in rules
        if rule.scope == "partition" and rule.name not in apart
    }
    jobs = {rule.name: len(rule.jobs) for rule in rules}
    total = sum(math.ceil(jobs[name] / sizes.get(name, (1, ""))[0]) for name in jobs)
    least = math.ceil(sum(jobs[name] for name in sizes) / MOST_JOBS)
    for rule in rules:
        size, why = sizes.get(rule.name, (1, ""))
        if wanted == "auto" and total > MOST_JOBS and size < least and rule.name in sizes:
            size, why = least, f"otherwise there would be {total} jobs"
        if size > 1:
            rule.bundles = _bundles(rule, size, without)
            rule.bundled = f"{size} jobs per bundle: {why}"


def _size(
    rule: Rule,
    wanted: BundleSize,
    seconds: Callable[[Rule], Sequence[float]],
    events: Callable[[Partition], int | None],
    at_once: int,
) -> tuple[int, str]:
    if wanted != "auto":
        return wanted, "as requested"
    count = len(rule.jobs)
    fewest = min(_FEWEST, _FOR_EACH * at_once) if at_once > 1 else _FEWEST
    if count < 2 * fewest:
        return 1, ""
    if took := seconds(rule):
        each, how = max(median(took), 0.001), "measured in earlier runs"
    else:
        partitions = [job.partition for job in rule.jobs.values() if job.partition]
        counts = [number for partition in partitions if (number := events(partition)) is not None]
        if len(counts) < count:
            return 1, ""
        each, how = _BESIDES + median(counts) / _EVENTS_PER_SECOND, "estimated from its events"
    shared = max(count // (_FOR_EACH * at_once), int(_TINY / each))
    size = min(int(_SECONDS / each), count // _FEWEST, shared)
    short = min(int(_SHORT / each), count // fewest)
    return max(size, short, 1), f"a job takes about {each:.2g} s, {how}"


def _bundles(rule: Rule, size: int, without: Collection[Place]) -> dict[str, Bundle]:
    """Return bundles of neighbouring partitions of one dataset each.

    The variations of a partition are neighbours: they read the same files. One that fails must not
    keep back the nominal plan.
    """
    by_dataset: dict[str, dict[tuple[bool, object], dict[str, list[str]]]] = {}
    for key, job in rule.jobs.items():
        is_alone = job.partition is not None and job.partition.place in without
        groups = by_dataset.setdefault(job.wildcards["dataset"], {})
        group = (is_alone, key if is_alone else job.variation == NOMINAL)
        groups.setdefault(group, {}).setdefault(job.wildcards["part"], []).append(key)
    bundles: dict[str, Bundle] = {}
    for dataset, groups in by_dataset.items():
        chunks: list[list[str]] = []
        for _, parts in sorted(groups.items(), key=lambda item: item[0][0]):
            keys = [key for same in parts.values() for key in same]
            chunks += [keys[start : start + size] for start in range(0, len(keys), size)]
        for number, chunk in enumerate(chunks):
            made = Bundle(rule.name, (dataset, f"bundle_{number}"), tuple(chunk))
            bundles[made.key] = made
    return bundles
