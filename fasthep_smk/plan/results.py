"""The files for the user that a run makes, as far as they are known before it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from fasthep_smk.flow.graph import Node
from fasthep_smk.plan.partitions import Partition
from fasthep_smk.plan.rules import Job, Rule, Variation
from fasthep_smk.storage import layout

#: Snakemake takes braces in a path for wildcards; and a line has one path.
_NOT_NAMED = frozenset("{}\n\r")


def results_of(
    rules: Iterable[Rule],
    variations: Iterable[Variation],
    *,
    recorded: Callable[[Job], Collection[str] | None],
    without: Iterable[tuple[str, str]] = (),
    exports: Iterable[str] = (),
) -> list[str]:
    """Return the files that a run makes for the user, relative to the build folder.

    ``recorded`` tells what a job has made that is done. Of the others those files are known that
    FAST-HEP's own operations name before they run. ``without`` are the partitions (dataset and
    part) that are left out, ``exports`` the formats of histograms besides FAST-HEP's own.
    """
    rules, left_out, exports = list(rules), frozenset(without), list(exports)
    done = {job.folder: recorded(job) for rule in rules for job in rule.jobs.values()}
    paths = [name for results in done.values() for name in results or ()]
    for item in variations:
        ends = [
            job
            for job in (*_jobs(rules, "merge"), *_jobs(rules, "finish"))
            if job.variation == item.label and (job.nodes or job.rule == "finish")
        ]
        if any(done[job.folder] is None for job in ends):
            paths += _of_end(item, exports)
        for job in _jobs(rules, "partition"):
            missing = (job.dataset, job.partition and job.partition.part) in left_out
            if done[job.folder] is None and job.variation == item.label and not missing:
                paths += _of_partition(job, item)
    named = [path for path in paths if layout.is_result(path) and not _NOT_NAMED & set(path)]
    return list(dict.fromkeys(named))


def _of_end(item: Variation, exports: Iterable[str]) -> list[str]:
    files = [path for node in item.graph.nodes.values() for path in _at_the_end(node, item)]
    histograms = [path for path in files if "/histograms/" in path and path.endswith(".pkl")]
    more = [
        f"{path.removesuffix('.pkl')}{layout.EXPORTED[export]}"
        for path in histograms
        for export in exports
    ]
    return [*files, *more]


def _jobs(rules: Iterable[Rule], scope: str) -> Iterator[Job]:
    for rule in rules:
        if rule.scope == scope:
            yield from rule.jobs.values()


def _at_the_end(node: Node, item: Variation) -> Iterator[str]:
    """Yield the files of a node that are there when the run has ended."""
    if not node.published and node.role == "sink":
        return
    datasets = list(dict.fromkeys(partition.dataset for partition in item.partitions))
    active = [dataset for dataset in datasets if item.graph.active(node.id, item.dataset(dataset))]
    if datasets and not active:
        return
    if node.role != "sink" or node.scope == "final":
        yield from node.writes
    elif node.scope == "dataset":
        for path in node.writes:
            yield from dict.fromkeys(path.replace("{dataset}", dataset) for dataset in active)


def _of_partition(job: Job, item: Variation) -> Iterator[str]:
    for node in (item.graph.nodes[name] for name in job.nodes):
        if node.role == "sink" and node.published and node.scope == "partition" and job.partition:
            for path in node.writes:
                yield _filled(path, job.partition)


def _filled(path: str, partition: Partition) -> str:
    """Return a path with the names of a partition in their places."""
    names = {"dataset": partition.dataset, "part": partition.part, "partition_id": partition.id}
    for name, value in names.items():
        path = path.replace(f"{{{name}}}", value)
    return path
