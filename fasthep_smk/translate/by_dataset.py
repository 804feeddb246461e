"""Jobs of one dataset, or of some of its files, with amounts of their own.

A place is what Snakemake's wildcards say of a job: ``ttbar`` for all jobs of a dataset,
``ttbar/0_0`` for one of its partitions, ``ttbar/bundle_0`` for several in one job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from fasthep_smk.config.dataset_sizes import DatasetSize, unknown_datasets
from fasthep_smk.config.requests import Attempt, ResourceRequest, leaf_of
from fasthep_smk.config.routing import Router, more_than_a_worker
from fasthep_smk.plan.rules import Job, Rule
from fasthep_smk.storage.job_settings import at_place, place_in
from fasthep_smk.util.errors import Finding

#: What tells the memory of the largest node that a job may run on, if that is known.
MostMemory = Callable[[Attempt], int | None]
#: The attempts of jobs, by their places.
Own = Mapping[str, tuple[Attempt, ...]]
_AMOUNTS = ("memory", "disk", "walltime")


def unfit(sizes: Sequence[DatasetSize], rules: Iterable[Rule], router: Router) -> list[Finding]:
    """Return names that no dataset or file has, and amounts that no worker of a pool has."""
    rules = list(rules)
    partitions = [
        job.partition for rule in rules for job in rule.jobs.values() if job.partition is not None
    ]
    files = list(dict.fromkeys((partition.dataset, partition.file) for partition in partitions))
    findings = [*unknown_datasets(sizes, files)]
    datasets = list(dict.fromkeys(dataset for dataset, _ in files))
    for size in sizes:
        pools = {
            attempt.pool: None
            for rule in rules
            if any(_means(size, job, datasets) for job in rule.jobs.values())
            for attempt in rule.route.attempts
        }
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
    stated: Sequence[Attempt],
    router: Router,
    node: MostMemory | None,
) -> dict[str, tuple[Attempt, ...]]:
    """Return what is said of those jobs of a rule that ask for other amounts than ``stated``.

    What is said of files counts more than what is said of their dataset, and a later pattern more
    than an earlier one. ``node`` tells the memory of the largest one of a batch system.
    """
    by_names: dict[tuple[str, ...], tuple[Attempt, ...]] = {}
    by_place: dict[str, tuple[Attempt, ...]] = {}
    for place, matching in _said(rule, sizes):
        names = tuple(size.name for size in matching)
        if names not in by_names:
            by_names[names] = tuple(_own(attempt, matching, router, node) for attempt in stated)
        by_place[place] = by_names[names]
    return by_place


def _said(rule: Rule, sizes: Sequence[DatasetSize]) -> Iterator[tuple[str, list[DatasetSize]]]:
    """Yield places of jobs with what is said of them, the strongest last."""
    datasets = list(dict.fromkeys(job.dataset for job in rule.jobs.values() if job.dataset))
    whole = {size.name: size for size in sizes if size.name in datasets}
    patterns = [size for size in sizes if size.name not in datasets]
    for job in rule.jobs.values():
        if job.dataset is None:
            continue
        own = [whole[job.dataset]] if job.dataset in whole else []
        if matching := [size for size in patterns if _means(size, job, datasets)]:
            yield place_in(job.wildcards), [*own, *matching]
        elif own:
            yield job.wildcards["dataset"], own


def _means(size: DatasetSize, job: Job, datasets: Sequence[str]) -> bool:
    if job.dataset is None:
        return False
    file = job.partition.file if job.partition is not None else ""
    return size.means(job.dataset, file, datasets)


def _own(
    attempt: Attempt, sizes: Sequence[DatasetSize], router: Router, node: MostMemory | None
) -> Attempt:
    """Return an attempt with the amounts that are said, the last of each: they do not change.

    But for memory: what failed may have lacked it.
    """
    values = {leaf: value for size in sizes for leaf, value in size.amounts.items()}
    origins = {leaf_of(leaf): size.place(leaf) for size in sizes for leaf in size.amounts}
    most = {**attempt.most, **values}
    if "memory" in values:
        worker = router.pools.by_name[attempt.pool].settings.request.memory
        largest = worker or (node(attempt) if node else None)
        del most["memory"]
        most |= {"memory": max(largest, values["memory"])} if largest else {}
    return replace(
        attempt,
        request=replace(attempt.request, **values),
        origins={**attempt.origins, **origins},
        most=most,
        measured=tuple(name for name in attempt.measured if name not in values),
    )


def stated_of_places(own: Own, asked: Own) -> Own:
    """Return what is said of Snakemake's jobs that are not like the others of their rule.

    ``own`` is what is said of our jobs, ``asked`` the requests of Snakemake's, each of which may be
    a bundle. A bundle of jobs that are not alike keeps its request, whatever others take.
    """
    return {
        place: own.get(place) or tuple(replace(attempt, measured=()) for attempt in attempts)
        for place, attempts in asked.items()
    }


def by_snakemake_job(
    rule: Rule, own: Own, given: tuple[Attempt, ...]
) -> dict[str, tuple[Attempt, ...]]:
    """Return the attempts of Snakemake's jobs that are not those ``given``: ``own`` are of ours.

    A bundle asks for the most of any of its jobs.
    """
    if not rule.bundles:
        return dict(own)
    by_place: dict[str, tuple[Attempt, ...]] = {}
    for bundle in rule.bundles.values():
        jobs = [rule.jobs[key] for key in bundle.jobs]
        dataset = jobs[0].wildcards["dataset"]
        each = [at_place(own, job.wildcards) or given for job in jobs]
        if all(attempts is own.get(dataset) for attempts in each):
            by_place[dataset] = own[dataset]
        elif any(attempts is not given for attempts in each):
            by_place[f"{dataset}/{bundle.place[-1]}"] = _most(each)
    return by_place


def _most(each: Sequence[tuple[Attempt, ...]]) -> tuple[Attempt, ...]:
    """Return at each attempt the most that any of several asks for.

    One of which no memory or disk is said asks for less than the others; one without a limit of
    time has none.
    """
    merged: list[Attempt] = []
    for attempts in zip(*each, strict=True):
        request, origins = attempts[0].request, dict(attempts[0].origins)
        for leaf in _AMOUNTS:
            stating = [
                attempt for attempt in attempts if getattr(attempt.request, leaf) is not None
            ]
            if not stating or (leaf == "walltime" and len(stating) < len(attempts)):
                request = replace(request, **{leaf: None})
                origins.pop(leaf_of(leaf), None)
                continue
            most = max(stating, key=lambda attempt: int(getattr(attempt.request, leaf)))
            request = replace(request, **{leaf: getattr(most.request, leaf)})
            if (origin := most.origins.get(leaf_of(leaf))) is not None:
                origins[leaf_of(leaf)] = origin
        first = attempts[0]
        merged.append(
            replace(
                first,
                request=request,
                origins=origins,
                most={
                    name: max(attempt.most[name] for attempt in attempts)
                    for name in first.most
                    if all(name in attempt.most for attempt in attempts)
                },
            )
        )
    return tuple(merged)
