"""The files for the user that a run makes, as far as they are known before it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from fasthep_smk.flow.graph import Node
from fasthep_smk.plan.partitions import Place
from fasthep_smk.plan.rules import Job, Rule, Variation
from fasthep_smk.storage import layout

#: Snakemake takes braces in a path for wildcards; and a line has one path.
_NOT_NAMED = frozenset("{}\n\r")


def results_of(
    rules: Iterable[Rule],
    variations: Iterable[Variation],
    *,
    recorded: Callable[[Job], Collection[str] | None],
    without: Iterable[Place] = (),
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
            missing = job.partition is not None and job.partition.place in left_out
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
    active = [name for name in item.dataset_names if item.graph.active(node.id, item.dataset(name))]
    if item.dataset_names and not active:
        return
    if node.role != "sink" or node.scope == "final":
        yield from node.writes
    elif node.scope == "dataset":
        for path in node.writes:
            yield from dict.fromkeys(path.replace("{dataset}", dataset) for dataset in active)


def _of_partition(job: Job, item: Variation) -> Iterator[str]:
    for node in (item.graph.nodes[name] for name in job.nodes):
        if node.role == "sink" and node.published and node.scope == "partition" and job.partition:
            yield from map(job.partition.named_in, node.writes)
