"""Rules and their jobs as plain records: what goes into a Snakefile and a task table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from fasthep_smk.config.requests import Attempt, Route
from fasthep_smk.flow.graph import Graph, Scope
from fasthep_smk.flow.shapes import Key
from fasthep_smk.plan.partitions import Partition, files_of
from fasthep_smk.plan.signatures import NodeSignature, Origin
from fasthep_smk.plan.wiring import Wiring
from fasthep_smk.storage import layout, record
from fasthep_smk.storage.layout import ARCHIVE, RECORD
from fasthep_smk.storage.record import MadeOf
from fasthep_smk.storage.task_table import JobScope, Kept, NodeFacts, OriginFacts, Read
from fasthep_smk.util.remote import SERVERS, is_remote

if TYPE_CHECKING:
    from fasthep_smk.flow.records import MissingPartition, SampleFacts
    from fasthep_smk.flow.shapes import Dataset
    from fasthep_smk.plan.amounts import KnownOf

#: What the only plan of a workflow without systematics is called.
NOMINAL = "nominal"


@dataclass(frozen=True, eq=False)
class Variation:
    """One plan of the workflow with its partitions; ``name`` is ``None`` without systematics."""

    name: str | None
    graph: Graph
    partitions: tuple[Partition, ...]

    @property
    def label(self) -> str:
        return self.name or NOMINAL

    @cached_property
    def dataset_names(self) -> tuple[str, ...]:
        """The datasets that have partitions, in plan order."""
        return tuple(dict.fromkeys(partition.dataset for partition in self.partitions))

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The files of all datasets, each once."""
        return tuple(dict.fromkeys(files_of(self.graph.plan)))

    def dataset(self, name: str) -> Dataset:
        """Return the dataset's entry in the plan's context, as ops see it."""
        return dict((self.graph.plan.context.get("datasets") or {}).get(name) or {"name": name})

    def datasets(self) -> list[Dataset | None]:
        """Return the entries of all datasets that have partitions; ``None`` if there is none."""
        return [*map(self.dataset, self.dataset_names)] or [None]

    def nodes_in(self, scope: Scope) -> tuple[str, ...]:
        """Return the nodes that run at some time of a run."""
        return tuple(node.id for node in self.graph.nodes.values() if node.scope == scope)

    def ports(self, nodes: Iterable[str]) -> list[Key]:
        """Return what nodes make."""
        there = self.graph.nodes
        return [(node, port) for node in nodes if node in there for port in there[node].outputs]


@dataclass(frozen=True)
class Job:
    """One job: which wildcards name it, what it reads, what signs it.

    A partition's job has an ``origin``, from which each of its products has a signature;
    ``signed_as`` names the signatures of its nodes among those of its rule.
    ``missing`` are the partitions that the end of a run goes without, ``sample`` says of how many
    it is if only some were asked for. Nothing needs a job whose partition ``is_left_out``.
    ``values`` are the signatures of what nodes at the end of a run make, each by itself.
    ``measured`` are stages with the modifiers that measure them, which only this job's signature
    knows.
    """

    rule: str
    wildcards: Mapping[str, str]
    variation: str
    dataset: str | None
    partition: Partition | None
    nodes: tuple[str, ...]
    reads: tuple[Read, ...]
    files: tuple[str, ...]
    signature: str
    signed_as: str = ""
    origin: Origin | None = None
    missing: tuple[MissingPartition, ...] = ()
    sample: SampleFacts | None = None
    is_left_out: bool = False
    values: Mapping[str, str] = field(default_factory=dict)
    measured: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """The wildcards' values joined by ``/``: the job's name within its rule."""
        return "/".join(self.wildcards.values())

    @cached_property
    def folder(self) -> str:
        """Where the job's products go, relative to the build folder."""
        return layout.job_folder(self.rule, self.wildcards.values())


@dataclass(frozen=True)
class Bundle:
    """Jobs of a rule, by their keys, that are one job of Snakemake's; ``place`` names it."""

    rule: str
    place: tuple[str, ...]
    jobs: tuple[str, ...]

    @property
    def key(self) -> str:
        return "/".join(self.place)

    @property
    def marker(self) -> str:
        """The file that says that all of its jobs are done, relative to the build folder."""
        return layout.bundle(self.rule, self.place)


@dataclass
class Rule:
    """All jobs of one kind. ``streams`` maps event-stream products to their files.

    ``nodes`` are the signatures of the nodes that its jobs run or reduce: by variation, and by
    dataset where stages do not apply to all. ``wirings`` are, by the same names, what the nodes of
    a partition's job hand to each other. Without ``bundles`` each job is one of Snakemake's;
    ``bundled`` says why they are there. ``processes`` is how many a job has a use for, on a machine
    that has cores to spare.
    """

    name: str
    scope: JobScope
    stages: tuple[str, ...]
    route: Route
    wildcards: tuple[str, ...]
    streams: dict[Key, str] = field(default_factory=dict)
    live: dict[Key, tuple[str, ...] | None] = field(default_factory=dict)
    keeps: tuple[Key, ...] = ()
    archive: bool = False
    warnings: list[str] = field(default_factory=list)
    nodes: dict[str, dict[str, NodeSignature]] = field(default_factory=dict)
    wirings: dict[str, Wiring] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    bundles: dict[str, Bundle] = field(default_factory=dict)
    bundled: str = ""
    processes: int = 1

    @property
    def named_by(self) -> tuple[str, ...]:
        """The wildcards that name Snakemake's jobs: a bundle may hold several variations."""
        if not self.bundles:
            return self.wildcards
        return (*(name for name in self.wildcards[:-1] if name != "variation"), "bundle")

    @property
    def together(self) -> int:
        """How many of its jobs one of Snakemake's runs, at most."""
        return max((len(bundle.jobs) for bundle in self.bundles.values()), default=1)

    def snakemake_jobs(self) -> list[tuple[Mapping[str, str], list[Job]]]:
        """Return Snakemake's jobs by their wildcards, each with those of ours that it runs."""
        if not self.bundles:
            return [(job.wildcards, [job]) for job in self.jobs.values()]
        return [
            (dict(zip(("dataset", "bundle"), bundle.place, strict=True)), jobs)
            for bundle in self.bundles.values()
            for jobs in [[self.jobs[key] for key in bundle.jobs]]
        ]

    @property
    def kept(self) -> tuple[Kept, ...]:
        """The products that outlive its jobs."""
        keys = dict.fromkeys([*self.keeps, *self.streams])
        return tuple(Kept(*key, self.streams.get(key), self.live.get(key)) for key in keys)

    def cached(self, signed_as: str) -> tuple[Kept, ...]:
        """Return the event streams that jobs keep if that costs little."""
        wiring = self.wirings.get(signed_as, Wiring())
        return tuple(
            Kept(*key, layout.stream(*key, cached=True), live)
            for key, live in wiring.cached.items()
        )

    @property
    def asked(self) -> tuple[Attempt, ...]:
        """What the attempts of its jobs ask for, as the Snakefile says it for any site."""
        return asked_by(self.route.attempts)


def asked_by(stated: tuple[Attempt, ...], known: KnownOf | None = None) -> tuple[Attempt, ...]:
    """Return what attempts ask for, given what is said of them, before any of them has failed.

    ``known`` tells what the finished jobs of their rule say.
    """
    if not any(attempt.may_change for attempt in stated):
        return stated
    from fasthep_smk.plan.amounts import planned

    return planned(stated, known)


def reads_remote(variations: Iterable[Variation]) -> bool:
    """Whether there are input files that a server may want a credential for."""
    files = (file for item in variations for file in files_of(item.graph.plan) if is_remote(file))
    return any(file.partition("://")[0].lower() in SERVERS for file in files)


def output_files(rule: Rule) -> dict[str, str]:
    """Return the files that each job of a rule makes, by name, relative to the job's folder."""
    outputs = {"record": RECORD}
    if rule.archive:
        outputs["products"] = ARCHIVE
    for number, name in enumerate(dict.fromkeys(rule.streams.values()), start=1):
        outputs[f"stream{number}"] = name
    return outputs


def made_of(rule: Rule, job: Job) -> MadeOf:
    """Return what a job's products follow from, as its record has it."""
    by_node = signatures(rule.nodes.get(job.signed_as, {}))
    return record.made_of(job.nodes, job.reads, by_node, origin_facts(job))


def signatures(nodes: Mapping[str, NodeSignature]) -> dict[str, NodeFacts]:
    """Return of each node its signature, and what of the run it may see."""
    return {node: (item.digest, sorted(item.sees)) for node, item in nodes.items()}


def origin_facts(job: Job) -> OriginFacts | None:
    """Return the digests of a job's origin and what they are made of."""
    if job.origin is None:
        return None
    return {"own": job.origin.own, "seen": dict(job.origin.seen), **job.origin.facts}
