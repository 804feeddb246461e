"""Which entries of which file are one partition.

FAST-HEP's compiler makes partitions for every source and cuts each file as if it held the whole
dataset's ``nevents``. Two sources of one workflow read the *same* file (each its own tree), so
their partitions are the same events: they are made once. Ranges come from the entries that each
file really has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from fasthep_smk.flow.graph import Graph, Node
from fasthep_smk.storage.inputs import Inputs, missing_branches
from fasthep_smk.util.errors import Finding, Findings
from fasthep_smk.util.remote import is_remote

if TYPE_CHECKING:
    from fasthep_smk.flow.missing_branches import Lack
    from fasthep_smk.flow.records import MissingPartition, PartitionData
    from fasthep_smk.flow.shapes import Dataset, Plan

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
    def place(self) -> Place:
        """Which partition it is."""
        return self.dataset, self.part

    @property
    def events(self) -> int | None:
        """How many events it has by its own range; ``None`` where that is open."""
        return None if self.start is None or self.stop is None else self.stop - self.start

    def named_in(self, path: str) -> str:
        """Return a path with the partition's names in their places."""
        path = path.replace("{dataset}", self.dataset).replace("{part}", self.part)
        return path.replace("{partition_id}", self.id)

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


def files_of(plan: Plan) -> list[str]:
    """Return the files of all datasets of a plan."""
    datasets = plan.context.get("datasets") or {}
    return [str(file) for content in datasets.values() for file in content.get("files") or ()]


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
    name, trees = sources[0].name, _trees(sources)
    bounds = {(source.start, source.stop) for source in sources}
    # The bounds of a partition replace those of all sources. Negative ones count from the end.
    cuts = len(bounds) == 1 and all((bound or 0) >= 0 for pair in bounds for bound in pair)
    cuts = cuts and all(source.honours_ranges for source in sources)
    counted = len(trees) == len(sources)
    if chunk_size and cuts and counted:  # all at once: servers take their time
        every = [str(file) for content in datasets.values() for file in content.get("files") or []]
        inputs.look(filter(is_remote, every), trees)
    partitions: list[Partition] = []
    for dataset, content in datasets.items():
        nevents = _events(content.get("nevents"))
        for index, file in enumerate(map(str, content.get("files") or [])):
            base = f"{name}__{dataset}__{index}"
            if not (chunk_size and cuts and (counted or nevents is not None)):
                start = None if nevents is None else 0
                whole = nevents is None and bounds == {(None, None)}
                part = f"{index}_0"
                partitions.append(Partition(base, dataset, file, name, part, start, nevents, whole))
                continue
            entries = _entries(file, trees, inputs) if trees else nevents or 0
            first, last = 0, nevents
            if nevents is None:
                first, last = sources[0].start or 0, sources[0].stop
            last = entries if last is None else min(entries, last)
            # One empty partition keeps the types of the columns.
            for number, start in enumerate(range(first, max(last, first + 1), chunk_size)):
                stop = max(first, min(start + chunk_size, last))
                whole = counted and (start, stop) == (0, entries)
                part = f"{index}_{number}"
                partitions.append(
                    Partition(f"{base}_{number}", dataset, file, name, part, start, stop, whole)
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
            "reason": reasons[partition.place],
        }
        for partition in partitions
    ]


def check_inputs(
    sources: list[SourceFacts], datasets: Mapping[str, Dataset], inputs: Inputs
) -> tuple[list[Finding], list[Lack], list[str]]:
    """Return what is wrong with the local ROOT files, the branches they lack, and warnings."""
    trees = _trees(sources)
    if not trees:
        return [], [], []
    local = {
        dataset: [str(file) for file in content.get("files") or [] if not is_remote(str(file))]
        for dataset, content in datasets.items()
    }
    facts = inputs.look(
        [file for listed in local.values() for file in listed], trees, alike=local.values()
    )
    findings: list[Finding] = []
    warnings: list[str] = []
    lacking: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for dataset, listed in local.items():
        nevents, total = _events(datasets[dataset].get("nevents")), 0
        for file in listed:
            if problem := facts[file].problem:
                findings.append(Finding(file=file, key=f"dataset {dataset!r}", problem=problem))
                continue
            entries = max(facts[file].entries[tree] for tree in trees)
            total += entries
            if nevents is not None and entries > nevents:
                warnings.append(
                    f"dataset {dataset!r} has 'nevents: {nevents}', but {file} holds {entries} "
                    f"entries: like FAST-HEP, jobs read only the first {nevents}"
                )
            for source in sources:
                if source.tree is not None and not source.ignores_missing:
                    asked = source.branches_for(dataset)
                    for branch in missing_branches(asked, facts[file], source.tree):
                        at = (source.name, source.tree, branch)
                        lacking.setdefault(at, []).append((dataset, file))
        if listed and not findings and not total:
            warnings.append(f"dataset {dataset!r} has no events")
    if not lacking:
        return findings, [], warnings
    from fasthep_smk.flow.missing_branches import Lack

    lacks = []
    for (name, tree, branch), files in lacking.items():
        held = facts[files[0][1]].branches
        having = [
            source.name for source in sources if branch in (held.get(source.tree or "") or ())
        ]
        other, there = next(iter(having), None), frozenset(held[tree] or ())
        lacks.append(Lack(branch, name, tree, tuple(files), there, other))
    return findings, lacks, warnings


def _trees(sources: Iterable[SourceFacts]) -> list[str]:
    return [source.tree for source in sources if source.tree is not None]


def _entries(file: str, trees: list[str], inputs: Inputs) -> int:
    """Return the entries of a file's trees.

    They may differ in length (events, luminosity blocks …): the longest counts, reading beyond
    the end of a shorter one yields nothing.
    """
    facts = inputs.look([file], trees)[file]
    if facts.problem:
        raise Findings([Finding(file=file, problem=facts.problem)])
    return max(facts.entries[tree] for tree in trees)


def counting(graphs: Iterable[Graph], inputs: Inputs) -> Callable[[Partition], int | None]:
    """Return what tells how many events a partition has; ``None`` where that is not known."""
    trees = [tree for graph in graphs for tree in _trees(sources_of(graph.nodes.values()))]

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
