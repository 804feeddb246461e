"""Jobs of one dataset, or of some of its files, with amounts of their own.

A place is what Snakemake's wildcards say of a job: ``ttbar`` for all jobs of a dataset,
``ttbar/0_0`` for one of its partitions, ``ttbar/bundle_0`` for several in one job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from fasthep_smk.config.dataset_sizes import DatasetSize, unknown_datasets
from fasthep_smk.config.requests import Attempt, ResourceRequest, leaf_of
from fasthep_smk.config.routing import Router, more_than_a_worker
from fasthep_smk.plan.amounts import KnownOf, saying
from fasthep_smk.plan.rules import Job, Rule, asked_by
from fasthep_smk.storage.job_settings import place_in
from fasthep_smk.util.errors import Finding

#: What tells the memory of the largest node that a job may run on, if that is known.
MostMemory = Callable[[Attempt], int | None]
_AMOUNTS = ("memory", "disk", "walltime")


def unfit(sizes: Sequence[DatasetSize], rules: Iterable[Rule], router: Router) -> list[Finding]:
    """Return names that no dataset or file has, and amounts that no worker of a pool has."""
    jobs = [(rule, job) for rule in rules for job in rule.jobs.values()]
    partitions = [job.partition for _, job in jobs if job.partition is not None]
    files = dict.fromkeys((partition.dataset, partition.file) for partition in partitions)
    findings = [*unknown_datasets(sizes, files)]
    datasets = {dataset for dataset, _ in files}
    for size in sizes:
        meant = {rule.name: rule for rule, job in jobs if _means(size, job, datasets)}
        pools = dict.fromkeys(pool for rule in meant.values() for pool in rule.route.pools)
        for pool in pools:
            for name in size.amounts:
                findings += more_than_a_worker(
                    router.pools.by_name[pool],
                    name,
                    ResourceRequest(**size.amounts),
                    size.layers[name].file,
                    size.key(name),
                    ", where its jobs go",
                )
    return findings


def own_amounts(
    rule: Rule,
    sizes: Sequence[DatasetSize],
    stated: tuple[Attempt, ...],
    router: Router,
    node: MostMemory | None,
    known: KnownOf,
) -> dict[str, tuple[Attempt, ...]]:
    """Return, by their places, what is said of Snakemake's jobs that is not ``stated`` of all.

    What is said of files counts more than what is said of their dataset, and a later pattern more
    than an earlier one. A bundle of jobs that are not alike asks for the most of any of them,
    whatever others take. ``node`` tells the memory of the largest one of a batch system, ``known``
    what other jobs took.
    """
    if not sizes:
        return {}
    datasets = {job.dataset for job in rule.jobs.values() if job.dataset}
    whole = {size.name: size for size in sizes if size.name in datasets}
    patterns = [size for size in sizes if size.name not in datasets]
    by_name = {size.name: size for size in sizes}

    def names_of(job: Job) -> tuple[str, ...]:
        """Return what is said of a job, the strongest last."""
        own = [job.dataset] if job.dataset in whole else []
        return (*own, *(size.name for size in patterns if _means(size, job, datasets)))

    @cache
    def said_of(names: tuple[str, ...]) -> tuple[Attempt, ...]:
        own = [by_name[name] for name in names]
        return tuple(_own(attempt, own, router, node) for attempt in stated) if own else stated

    by_place: dict[str, tuple[Attempt, ...]] = {}
    for wildcards, jobs in rule.snakemake_jobs():
        each = dict.fromkeys(map(names_of, jobs))
        names, *others = each
        if others:
            by_place[place_in(wildcards)] = _most([asked_by(said_of(one), known) for one in each])
        elif names:
            is_whole = names == (jobs[0].dataset,)
            place = wildcards["dataset"] if is_whole else place_in(wildcards)
            by_place[place] = said_of(names)
    return by_place


def _means(size: DatasetSize, job: Job, datasets: Iterable[str]) -> bool:
    file = job.partition.file if job.partition is not None else ""
    return job.dataset is not None and size.means(job.dataset, file, datasets)


def _own(
    attempt: Attempt, sizes: Sequence[DatasetSize], router: Router, node: MostMemory | None
) -> Attempt:
    """Return an attempt with the amounts that are said, the last of each: they do not change.

    But for memory: what failed may have lacked it.
    """
    values = {leaf: value for size in sizes for leaf, value in size.amounts.items()}
    why = {leaf: size.place(leaf) for size in sizes for leaf in size.amounts}
    most = {**attempt.most, **values}
    if "memory" in values:
        worker = router.pools.by_name[attempt.pool].settings.request.memory
        largest = worker or (node(attempt) if node else None)
        del most["memory"]
        most |= {"memory": max(largest, values["memory"])} if largest else {}
    return saying(attempt, values, why, most)


def _most(each: Sequence[tuple[Attempt, ...]]) -> tuple[Attempt, ...]:
    """Return at each attempt the most that any of several asks for.

    One of which no memory or disk is said asks for less than the others; one without a limit of
    time has none.
    """
    merged: list[Attempt] = []
    for attempts in zip(*each, strict=True):
        said: dict[str, int | None] = dict.fromkeys(_AMOUNTS)
        why: dict[str, str] = {}
        for leaf in _AMOUNTS:
            stating = [one for one in attempts if getattr(one.request, leaf) is not None]
            if stating and (leaf != "walltime" or len(stating) == len(attempts)):
                largest = max(stating, key=lambda one: int(getattr(one.request, leaf)))
                said[leaf] = getattr(largest.request, leaf)
                if (at := leaf_of(leaf)) in largest.origins:
                    why[leaf] = largest.origins[at]
        most = {
            name: max(attempt.most[name] for attempt in attempts)
            for name in attempts[0].most
            if all(name in attempt.most for attempt in attempts)
        }
        merged.append(saying(attempts[0], said, why, most))
    return tuple(merged)
