"""The files for the user that other workflows can wait for: which, and which jobs make them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from fasthep_smk.flow.graph import Node
from fasthep_smk.plan.partitions import Partition
from fasthep_smk.plan.rules import Job, Rule, Variation
from fasthep_smk.storage import layout
from fasthep_smk.util.files import digest_of
from fasthep_smk.util.names import encode

__all__ = ["Results", "results_of"]

#: Snakemake takes braces in a path for wildcards; and a line has one path.
_NOT_NAMED = frozenset("{}\n\r")


@dataclass(frozen=True)
class Results:
    """Files that are handed over together, and the jobs whose records say that they are there.

    ``what`` tells people what they are. Of jobs, the rules and keys are given.
    """

    name: str
    what: str
    files: tuple[str, ...]
    jobs: tuple[tuple[str, str], ...]
    signature: str


def results_of(
    rules: Iterable[Rule],
    variations: Iterable[Variation],
    without: Iterable[tuple[str, str]] = (),
    made_by: Callable[[Job], Collection[str] | None] = lambda _: None,
    exports: Iterable[str] = (),
) -> list[Results]:
    """Return what each variation hands over: results of the end of the run, and of partitions.

    Only files whose names are known before a run: those of FAST-HEP's own operations. ``without``
    are the partitions (dataset and part) that are left out. Of jobs at the end of a run that are
    done, ``made_by`` tells what they have made: a renderer may have found nothing to draw.
    ``exports`` are the formats of histograms besides FAST-HEP's own.
    """
    rules, left_out, exports = list(rules), frozenset(without), list(exports)
    found = []
    for item in variations:
        suffix = "" if item.name is None else f"_{encode(item.name)}"
        ends = [
            job
            for job in (*_jobs(rules, "merge"), *_jobs(rules, "finish"))
            if job.variation == item.label and (job.nodes or job.rule == "finish")
        ]
        files = [path for node in item.graph.nodes.values() for path in _at_the_end(node, item)]
        histograms = [path for path in files if "/histograms/" in path and path.endswith(".pkl")]
        files += [
            f"{path.removesuffix('.pkl')}{layout.EXPORTED[one]}"
            for path in histograms
            for one in exports
        ]
        made = [made_by(job) for job in ends]
        if None not in made:
            there = frozenset().union(*(one or () for one in made))
            files = [path for path in files if path in there]
        told = "Histograms, cutflows, plots and tables"
        found.append(_made(f"results{suffix}", told, files, ends))
        parts = [
            (job, paths)
            for job in _jobs(rules, "partition")
            if job.variation == item.label
            and (job.dataset, job.partition and job.partition.part) not in left_out
            and (paths := list(_of_partition(job, item)))
        ]
        files = [path for _, paths in parts for path in paths]
        told = "Files that writers make for each partition"
        found.append(_made(f"files{suffix}", told, files, [job for job, _ in parts]))
    return [one for one in found if one.files and one.jobs]


def _jobs(rules: Iterable[Rule], scope: str) -> Iterator[Job]:
    for rule in rules:
        if rule.scope == scope:
            yield from rule.jobs.values()


def _made(name: str, what: str, files: Iterable[str], jobs: Iterable[Job]) -> Results:
    jobs = list(jobs)
    named = [path for path in files if layout.is_result(path) and not _NOT_NAMED & set(path)]
    return Results(
        name,
        what,
        tuple(dict.fromkeys(named)),
        tuple((job.rule, job.key) for job in jobs),
        digest_of([job.signature for job in jobs]),
    )


def _at_the_end(node: Node, item: Variation) -> Iterator[str]:
    """Yield the files of a node that are there when the run has ended."""
    if not node.published and node.role == "sink":
        return
    datasets = list(dict.fromkeys(one.dataset for one in item.partitions))
    active = [one for one in datasets if item.graph.active(node.id, item.dataset(one))]
    if datasets and not active:
        return
    if node.role != "sink" or node.scope == "final":
        yield from node.writes
    elif node.scope == "dataset":
        for path in node.writes:
            yield from dict.fromkeys(path.replace("{dataset}", one) for one in active)


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
