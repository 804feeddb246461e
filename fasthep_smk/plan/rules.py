"""Rules and their jobs as plain records: what goes into a Snakefile and a task table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fasthep_smk import layout
from fasthep_smk.flow.graph import Graph
from fasthep_smk.plan.partitions import Partition

__all__ = ["NOMINAL", "Job", "JobScope", "Read", "Rule", "Variation"]

JobScope = Literal["side", "partition", "merge", "finish", "publish"]
Key = tuple[str, str]

#: What the only plan of a workflow without systematics is called.
NOMINAL = "nominal"


@dataclass(frozen=True)
class Variation:
    """One plan of the workflow with its partitions; ``name`` is ``None`` without systematics."""

    name: str | None
    graph: Graph
    partitions: tuple[Partition, ...]

    @property
    def label(self) -> str:
        return self.name or NOMINAL

    def dataset(self, name: str) -> Mapping[str, Any]:
        """Return the dataset's entry in the plan's context, as ops see it."""
        return dict((self.graph.plan.context.get("datasets") or {}).get(name) or {"name": name})


@dataclass(frozen=True)
class Read:
    """Products that a job takes from another job's folder; none if it only has to run after."""

    folder: str
    keys: tuple[Key, ...]


@dataclass(frozen=True)
class Job:
    """One job: which wildcards name it, what it reads, what signs it."""

    rule: str
    wildcards: Mapping[str, str]
    variation: str
    dataset: str | None
    partition: Partition | None
    nodes: tuple[str, ...]
    reads: tuple[Read, ...]
    files: tuple[str, ...]
    signature: str

    @property
    def key(self) -> str:
        """The wildcards' values joined by ``/``: the job's name within its rule."""
        return "/".join(self.wildcards.values())

    @property
    def folder(self) -> str:
        """Where the job's products go, relative to the build folder."""
        return layout.job_folder(self.rule, self.wildcards.values())


@dataclass
class Rule:
    """All jobs of one kind. ``streams`` maps event-stream products to their files."""

    name: str
    scope: JobScope
    stages: tuple[str, ...]
    pool: str
    wildcards: tuple[str, ...]
    streams: dict[Key, str] = field(default_factory=dict)
    live: dict[Key, tuple[str, ...] | None] = field(default_factory=dict)
    keeps: tuple[Key, ...] = ()
    archive: bool = False
    jobs: dict[str, Job] = field(default_factory=dict)
