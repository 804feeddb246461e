"""Which entries of which file are one partition.

FAST-HEP's compiler makes partitions for every source and cuts each file as if it held the whole
dataset's ``nevents``. Two sources of one workflow read the *same* file (each its own tree), so
their partitions are the same events: they are made once. Ranges come from the entries that each
file really has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from fasthep_smk.flow.graph import Graph, Node
from fasthep_smk.storage.inputs import Inputs, missing_branches
from fasthep_smk.storage.root_files import RootFile
from fasthep_smk.util.errors import Finding, Findings
from fasthep_smk.util.remote import is_remote

if TYPE_CHECKING:
    from fasthep_smk.flow.missing_branches import Lack
    from fasthep_smk.flow.records import MissingPartition, PartitionData
    from fasthep_smk.flow.shapes import Dataset

#: The dataset and the part of a partition.
Place = tuple[str, str]


@dataclass(frozen=True)
class Partition:
    """Entries ``[start, stop)`` of one file of a dataset; ``None`` means from or to the end.

    ``whole`` tells that these are known to be all entries of the file.
    """

    id: str
    dataset: str
    file: str
    source: str
    part: str
    start: int | None = None
    stop: int | None = None
    whole: bool = False

    @property
    def events(self) -> int | None:
        """How many events it has by its own range; ``None`` where that is open."""
        return None if self.start is None or self.stop is None else self.stop - self.start

    def as_dict(self) -> PartitionData:
        """Return the partition as FAST-HEP's plan writes it."""
        return {
            "id": self.id,
            "dataset": self.dataset,
            "file": self.file,
            "source": self.source,
            "part": self.part,
            "start": self.start,
            "stop": self.stop,
        }


@dataclass(frozen=True)
class SourceFacts:
    """What matters of a source: its name, and what it reads if it reads ROOT trees."""

    name: str
    tree: str | None
    honours_ranges: bool
    branches: tuple[str, ...]
    branches_by_dataset: Mapping[str, tuple[str, ...]]
    ignores_missing: bool
    start: int | None
    stop: int | None

    def branches_for(self, dataset: str) -> tuple[str, ...]:
        """Return the branches that will be asked of a dataset's files."""
        return tuple(dict.fromkeys([*self.branches, *self.branches_by_dataset.get(dataset, ())]))

    @property
    def all_branches(self) -> frozenset[str] | None:
        """The branches that are asked of the files of any dataset; ``None``: all of them."""
        return frozenset(self.branches).union(*self.branches_by_dataset.values()) or None


def sources_of(nodes: Iterable[Node]) -> list[SourceFacts]:
    """Return the sources among a graph's nodes, in plan order."""
    return [_source(node) for node in nodes if node.role == "source"]


def make_partitions(
    sources: list[SourceFacts],
    datasets: Mapping[str, Dataset],
    *,
    chunk_size: int | None,
    inputs: Inputs,
) -> list[Partition]:
    """Return the partitions of all datasets, in FAST-HEP's order, each event in one of them.

    ``chunk_size`` is in events. A file is cut only if all sources honour entry ranges, and have
    the same ``start`` and ``stop``, which are not negative; what is not a ROOT file is cut by
    ``nevents``, since its entries cannot be counted here.
    """
    if not sources:
        return []
    name = sources[0].name
    bounds_of = {(source.start, source.stop) for source in sources}
    cuts = (
        chunk_size is not None
        and all(source.honours_ranges for source in sources)
        # The bounds of a partition replace those of all sources. Negative ones count from the end.
        and len(bounds_of) == 1
        and all((bound or 0) >= 0 for bounds in bounds_of for bound in bounds)
    )
    counted = all(source.tree is not None for source in sources)
    partitions: list[Partition] = []
    if cuts and counted:  # all at once: servers take their time
        every = [str(file) for content in datasets.values() for file in content.get("files") or []]
        inputs.look(
            filter(is_remote, every), [source.tree for source in sources if source.tree is not None]
        )
    for dataset, content in datasets.items():
        nevents = _events(content.get("nevents"))
        for index, file in enumerate(content.get("files") or []):
            base = f"{name}__{dataset}__{index}"
            ranges = (
                list(_ranges(str(file), sources, nevents, int(chunk_size), inputs))
                if cuts and chunk_size is not None and (counted or nevents is not None)
                else None
            )
            if ranges is None:
                start = 0 if nevents is not None else None
                part = f"{index}_0"
                whole = nevents is None and not any(
                    bound is not None for source in sources for bound in (source.start, source.stop)
                )
                partitions.append(
                    Partition(base, dataset, str(file), name, part, start, nevents, whole)
                )
                continue
            partitions.extend(
                Partition(
                    f"{base}_{number}",
                    dataset,
                    str(file),
                    name,
                    f"{index}_{number}",
                    *bounds,
                    whole=counted
                    and len(ranges) == 1
                    and bounds == (0, _entries(str(file), sources, inputs)),
                )
                for number, bounds in enumerate(ranges)
            )
    return partitions


def missing_entries(
    partitions: Iterable[Partition], reasons: Mapping[Place, str]
) -> list[MissingPartition]:
    """Return missing partitions as they stand in summaries and manifests."""
    return [
        {
            "dataset": partition.dataset,
            "file": partition.file,
            "start": partition.start,
            "stop": partition.stop,
            "id": partition.id,
            "reason": reasons[(partition.dataset, partition.part)],
        }
        for partition in partitions
    ]


def check_inputs(
    sources: list[SourceFacts],
    datasets: Mapping[str, Dataset],
    inputs: Inputs,
    told: Callable[[Sequence[Lack]], list[Finding]],
) -> tuple[list[Finding], list[str]]:
    """Return what is wrong with the local ROOT files, and warnings about their sizes.

    ``told`` makes findings of the branches that files lack.
    """
    trees = [source.tree for source in sources if source.tree is not None]
    if not trees:
        return [], []
    local = {
        dataset: [str(file) for file in content.get("files") or [] if not is_remote(str(file))]
        for dataset, content in datasets.items()
    }
    every = [file for listed in local.values() for file in listed]
    facts = inputs.look(every, trees, alike=local.values())
    findings: list[Finding] = []
    warnings: list[str] = []
    lacking: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for dataset, listed in local.items():
        entries = 0
        for file in listed:
            root_file = facts[file]
            if root_file.problem:
                where = f"dataset {dataset!r}"
                findings.append(Finding(file=file, key=where, problem=root_file.problem))
                continue
            entries += max(root_file.entries[tree] for tree in trees)
            for source, tree, branch in _missing_branches(sources, dataset, root_file):
                lacking.setdefault((source.name, tree, branch), []).append((dataset, file))
        if listed and not findings:
            warnings.extend(_size_warnings(dataset, datasets[dataset], listed, facts, trees))
            if entries == 0:
                warnings.append(f"dataset {dataset!r} has no events")
    if not lacking:
        return findings, warnings
    from fasthep_smk.flow.missing_branches import Lack

    lacks = [
        Lack(
            branch=branch,
            source=name,
            tree=tree,
            files=tuple(files),
            branches=frozenset(facts[files[0][1]].branches[tree] or ()),
            other=_source_with(branch, sources, facts[files[0][1]]),
        )
        for (name, tree, branch), files in lacking.items()
    ]
    return [*findings, *told(lacks)], warnings


def _source_with(branch: str, sources: list[SourceFacts], facts: RootFile) -> str | None:
    """Return a source whose tree has a branch."""
    trees = ((source.name, facts.branches.get(source.tree or "")) for source in sources)
    return next((name for name, branches in trees if branch in (branches or ())), None)


def _ranges(
    file: str, sources: list[SourceFacts], nevents: int | None, chunk_size: int, inputs: Inputs
) -> Iterator[tuple[int, int]]:
    if not any(source.tree is not None for source in sources):
        yield from _cut(0, nevents or 0, chunk_size)
        return
    first, last = 0, _entries(file, sources, inputs)
    if nevents is not None:
        last = min(last, nevents)
    else:
        first = sources[0].start or 0
        last = last if sources[0].stop is None else min(last, sources[0].stop)
    yield from _cut(first, last, chunk_size)


def _entries(file: str, sources: list[SourceFacts], inputs: Inputs) -> int:
    """Return the entries of a file's trees.

    They may differ in length (events, luminosity blocks …): the longest counts, reading beyond
    the end of a shorter one yields nothing.
    """
    trees = [source.tree for source in sources if source.tree is not None]
    facts = inputs.look([file], trees)[file]
    if facts.problem:
        raise Findings([Finding(file=file, problem=facts.problem)])
    return max(facts.entries[tree] for tree in trees)


def counting(graphs: Iterable[Graph], inputs: Inputs) -> Callable[[Partition], int | None]:
    """Return what tells how many events a partition has; ``None`` where that is not known."""
    sources = [source for graph in graphs for source in sources_of(graph.nodes.values())]
    trees = [source.tree for source in sources if source.tree is not None]

    @cache
    def entries(file: str) -> int:
        return max(inputs.look([file], trees)[file].entries.values(), default=0)

    def events(partition: Partition) -> int | None:
        start, stop = partition.start or 0, partition.stop
        if trees and not is_remote(partition.file):
            there = entries(partition.file)
            stop = there if stop is None else min(stop, there)
        return None if stop is None else max(0, stop - start)

    return events


def _cut(first: int, last: int, chunk_size: int) -> Iterator[tuple[int, int]]:
    if last <= first:
        yield first, max(first, last)  # one empty partition keeps the types of the columns
        return
    for start in range(first, last, chunk_size):
        yield start, min(start + chunk_size, last)


def _missing_branches(
    sources: list[SourceFacts], dataset: str, facts: RootFile
) -> Iterator[tuple[SourceFacts, str, str]]:
    for source in sources:
        if source.tree is None or source.ignores_missing:
            continue
        for branch in missing_branches(source.branches_for(dataset), facts, source.tree):
            yield source, source.tree, branch


def _size_warnings(
    dataset: str,
    content: Dataset,
    listed: list[str],
    facts: Mapping[str, RootFile],
    trees: list[str],
) -> Iterator[str]:
    nevents = _events(content.get("nevents"))
    if nevents is None:
        return
    for file in listed:
        entries = max(facts[file].entries[tree] for tree in trees)
        if entries > nevents:
            yield (
                f"dataset {dataset!r} has 'nevents: {nevents}', but {file} holds {entries} "
                f"entries: like FAST-HEP, jobs read only the first {nevents}"
            )


def _source(node: Node) -> SourceFacts:
    params = dict(node.params)
    is_root = node.impl == "root_tree"
    by_dataset = params.get("branches_by_dataset") or {}
    return SourceFacts(
        name=str(node.meta.get("source_name") or node.id.removeprefix("read.")),
        tree=str(params["tree"]) if is_root and params.get("tree") else None,
        honours_ranges=node.honours_ranges,
        branches=tuple(str(item) for item in params.get("branches") or ()),
        branches_by_dataset={
            str(dataset): tuple(str(item) for item in items)
            for dataset, items in by_dataset.items()
        },
        ignores_missing=str(params.get("missing_branches") or "error") == "ignore",
        start=_events(params.get("start")),
        stop=_events(params.get("stop")),
    )


def _events(value: str | int | None) -> int | None:
    if value is None or not str(value).strip():
        return None
    return int(value)
