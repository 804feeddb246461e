"""The task table of a rule: what each of its jobs is. One shape, for all who write or read it.

The translation writes one JSON file for each rule (``smk/tasks/<rule>.json``; its schema is
``task-table.schema.json``). Snakemake looks up in it what a job waits for, a worker what to do, the
transfer what to send along, ``status`` and ``clean`` which jobs there are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from fasthep_smk.storage import layout
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.errors import SmkError

if TYPE_CHECKING:
    from fasthep_smk.flow.context_use import Sight
    from fasthep_smk.flow.records import MissingPartition, PartitionData, SampleFacts

__all__ = [
    "Adopted",
    "BundleEntry",
    "EventFacts",
    "JobEntry",
    "Kept",
    "Key",
    "NodeFacts",
    "OriginFacts",
    "OwnFacts",
    "Part",
    "Read",
    "Source",
    "TaskTable",
    "UnreadableTable",
    "marker_text",
]

_FIX = "'fasthep-smk translate workflow.yaml' writes it again"
#: A product: the id of the node that makes it, and the name of the port.
Key = tuple[str, str]
#: Identity, size (bytes) and modification time (ns) of a file that a signature knows.
Source = tuple[str | None, int, int]
#: The signature of a node (a text), and what of the run it may see (a list of texts).
NodeFacts = list[Any]


class OwnFacts(TypedDict):
    """What every node sees of where its events come from; ``context`` is a digest."""

    dataset: str | None
    context: str
    files: list[str]
    entries: Literal["all"] | list[int | None]
    branches: dict[str, list[str]]


class EventFacts(OwnFacts):
    """The same, with the digest of the run's datasets, and the signatures of what ran before."""

    run: str
    before: list[str]


class OriginFacts(EventFacts):
    """The same with its digests: what each node sees, and what those see that look further."""

    own: str
    seen: dict[Sight, str]


class UnreadableTable(SmkError):
    """A file is damaged, or no task table that this version of fasthep-smk has written."""


@dataclass(frozen=True)
class Kept:
    """A product that outlives its job.

    ``file`` is the name of an event stream's file in the job's folder, ``live`` the columns that
    it has; ``None``: all of them.
    """

    node: str
    port: str
    file: str | None
    live: tuple[str, ...] | None

    @property
    def key(self) -> Key:
        return self.node, self.port

    def as_dict(self) -> dict[str, object]:
        return vars(self)

    @classmethod
    def from_dict(cls, found: JsonObject) -> Kept:
        live = found["live"]
        return cls(
            node=_text(found["node"]),
            port=_text(found["port"]),
            file=found["file"],
            live=None if live is None else tuple(live),
        )


@dataclass(frozen=True)
class Read:
    """Products that a job takes from another job's folder; none if it only has to run after.

    ``marker`` is the file of the bundle that the other job is in.
    """

    folder: str
    keys: tuple[Key, ...]
    marker: str | None = None

    def as_dict(self) -> dict[str, object]:
        found: dict[str, object] = {"folder": self.folder, "keys": self.keys}
        return found if self.marker is None else {**found, "marker": self.marker}

    @classmethod
    def from_dict(cls, found: JsonObject) -> Read:
        return cls(_text(found["folder"]), _keys(found["keys"]), found.get("marker"))


@dataclass(frozen=True)
class Adopted:
    """What a job adopts from one folder (relative to the build) of a job so signed.

    ``nodes`` are those whose records come from there, ``keys`` the job's own products, ``streams``
    what nodes that run read, ``cached`` the streams that are kept on, ``results`` files for the
    user, relative to the build folder.
    """

    folder: str
    signature: str
    nodes: tuple[str, ...]
    keys: tuple[Key, ...]
    streams: tuple[Key, ...]
    cached: tuple[Key, ...]
    results: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        return vars(self)

    @classmethod
    def from_dict(cls, found: JsonObject) -> Adopted:
        return cls(
            folder=_text(found["folder"]),
            signature=_text(found["signature"]),
            nodes=tuple(found["nodes"]),
            keys=_keys(found["keys"]),
            streams=_keys(found["streams"]),
            cached=_keys(found["cached"]),
            results=tuple(found["results"]),
        )


@dataclass(frozen=True)
class Part:
    """The nodes of a job that run, what they read of other jobs, and what is adopted."""

    nodes: tuple[str, ...]
    reads: tuple[Read, ...]
    adopted: tuple[Adopted, ...]

    def as_dict(self) -> dict[str, object]:
        return {
            "nodes": self.nodes,
            "reads": [one.as_dict() for one in self.reads],
            "adopted": [one.as_dict() for one in self.adopted],
        }

    @classmethod
    def from_dict(cls, found: JsonObject) -> Part:
        return cls(
            tuple(found["nodes"]),
            tuple(map(Read.from_dict, found["reads"])),
            tuple(map(Adopted.from_dict, found["adopted"])),
        )


@dataclass(frozen=True, kw_only=True)
class JobEntry:
    """One job. All paths but those in ``inputs``, ``files`` and ``partition`` are in the build.

    ``inputs`` are the files that Snakemake waits for. ``target``: it makes something for the user.
    ``signed_as`` names the signatures of its nodes among those of the rule, ``origin`` is where a
    partition's events come from. ``partition`` is written as FAST-HEP's plan does. ``files`` are
    input files as the plan knows them, ``path|size|time in ns|first bytes`` by path. ``values`` are
    signatures of what nodes at the end of a run make, each by itself; ``missing`` the partitions
    that the end of the run goes without, ``sample`` of how many it is. With a ``part``, only that
    of the job has to run. ``file_digest`` is
    what random numbers are seeded with on a worker where the input file has another name. A job is
    ``measured`` if a modifier of a stage of it, which measures that, takes memory and time itself.
    """

    inputs: tuple[str, ...]
    record: str
    target: bool
    signature: str
    signed_as: str
    origin: OriginFacts | None
    folder: str
    plan: str
    variation: str
    dataset: str | None
    partition: PartitionData | None
    nodes: tuple[str, ...]
    reads: tuple[Read, ...]
    files: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    missing: tuple[MissingPartition, ...] = ()
    sample: SampleFacts | None = None
    part: Part | None = None
    file_digest: str | None = None
    measured: bool = False

    @property
    def file(self) -> str | None:
        """The input file of its partition, as the workflow writes it."""
        return self.partition.get("file") if self.partition else None

    @property
    def adopted(self) -> tuple[Adopted, ...]:
        """What it adopts from earlier jobs."""
        return self.part.adopted if self.part else ()

    def as_dict(self) -> dict[str, object]:
        found = {name: value for name, value in vars(self).items() if name not in _OPTIONAL}
        found["reads"] = [one.as_dict() for one in self.reads]
        found |= {name: value for name in _OPTIONAL if (value := getattr(self, name))}
        if self.part is not None:
            found["part"] = self.part.as_dict()
        return found

    @classmethod
    def from_dict(cls, found: JsonObject) -> JobEntry:
        part = found.get("part")
        return cls(
            inputs=tuple(found["inputs"]),
            record=_text(found["record"]),
            target=found["target"],
            signature=_text(found["signature"]),
            signed_as=_text(found["signed_as"]),
            origin=found["origin"],
            folder=_text(found["folder"]),
            plan=_text(found["plan"]),
            variation=_text(found["variation"]),
            dataset=found["dataset"],
            partition=found["partition"],
            nodes=tuple(found["nodes"]),
            reads=tuple(map(Read.from_dict, found["reads"])),
            files=dict(found.get("files", {})),
            values=dict(found.get("values", {})),
            missing=tuple(found.get("missing", ())),
            sample=found.get("sample"),
            part=None if part is None else Part.from_dict(part),
            file_digest=found.get("file_digest"),
            measured=found.get("measured", False),
        )


_OPTIONAL = ("files", "values", "missing", "sample", "part", "file_digest", "measured")


@dataclass(frozen=True)
class BundleEntry:
    """Jobs, by their keys, that are one job of Snakemake's.

    ``marker`` is the file that says that all of them are done.
    """

    jobs: tuple[str, ...]
    marker: str
    signature: str

    def as_dict(self) -> dict[str, object]:
        return vars(self)

    @classmethod
    def from_dict(cls, found: JsonObject) -> BundleEntry:
        return cls(tuple(found["jobs"]), _text(found["marker"]), _text(found["signature"]))


@dataclass(frozen=True, kw_only=True)
class TaskTable:
    """What the jobs of a rule have in common, and its jobs by their keys.

    ``stages`` and ``pool`` are for people. ``wildcards`` name the jobs of Snakemake, ``outputs``
    are the names of the files in each job's folder. ``keeps`` outlive a job, ``cached`` (by
    ``signed_as``) are event streams that are kept if that costs little. ``nodes`` are, by
    ``signed_as``, the facts of each node, ``sources`` the files that signatures know besides the
    inputs. ``siblings`` is how many jobs the rule has, where the table does not hold all of them.
    """

    rule: str
    scope: str
    stages: tuple[str, ...]
    pool: str
    wildcards: tuple[str, ...]
    outputs: tuple[str, ...]
    keeps: tuple[Kept, ...]
    cached: Mapping[str, Sequence[Kept]]
    nodes: Mapping[str, Mapping[str, NodeFacts]]
    jobs: Mapping[str, JobEntry]
    bundles: Mapping[str, BundleEntry]
    sources: Mapping[str, Source]
    siblings: int | None = None

    @property
    def number_of_jobs(self) -> int:
        return self.siblings or len(self.jobs)

    def to_text(self, *, indent: int | None = None) -> str:
        """Return the table as its file holds it."""
        found = {
            **vars(self),
            "keeps": [one.as_dict() for one in self.keeps],
            "cached": {name: [one.as_dict() for one in kept] for name, kept in self.cached.items()},
            "jobs": {key: one.as_dict() for key, one in self.jobs.items()},
            "bundles": {key: one.as_dict() for key, one in self.bundles.items()},
        }
        if self.siblings is None:
            del found["siblings"]
        return json.dumps(found, indent=indent) + "\n"

    @classmethod
    def from_json(cls, found: JsonObject, place: Path, key: str | None = None) -> TaskTable:
        """Return the table that JSON holds; with ``key``, of that job or bundle of jobs only.

        Raises:
            KeyError: the rule has no such job.
            UnreadableTable: it is no table that this version has written; ``place`` is named.
        """
        try:
            return cls._from_json(found, key)
        except _NoJob as error:
            raise KeyError(str(error)) from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            said = f"has no {error}" if isinstance(error, KeyError) else str(error)
            raise UnreadableTable(
                f"{place} is not a task table of this version of fasthep-smk ({said}); {_FIX}"
            ) from error

    @classmethod
    def read(cls, build: Path, rule: str, key: str | None = None) -> TaskTable:
        """Return the table of a rule; with ``key``, of that job or bundle of jobs only.

        Raises:
            OSError: there is none.
            KeyError, UnreadableTable: see ``from_json``.
        """
        path = build / layout.table(rule)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise UnreadableTable(f"{path} is damaged ({error}); {_FIX}") from error
        return cls.from_json(found, path, key)

    @classmethod
    def _from_json(cls, found: JsonObject, key: str | None) -> TaskTable:
        bundles, jobs, siblings = found["bundles"], found["jobs"], found.get("siblings")
        if key is not None:
            siblings = siblings or len(jobs)
            bundles = {key: bundles[key]} if key in bundles else {}
            keys: Iterable[str] = bundles[key]["jobs"] if bundles else [key]
            if absent := [one for one in keys if one not in jobs]:
                raise _NoJob(absent[0])
            jobs = {one: jobs[one] for one in keys}
        return cls(
            rule=found["rule"],
            scope=found["scope"],
            stages=tuple(found["stages"]),
            pool=found["pool"],
            wildcards=tuple(found["wildcards"]),
            outputs=tuple(found["outputs"]),
            keeps=tuple(map(Kept.from_dict, found["keeps"])),
            cached={
                name: tuple(map(Kept.from_dict, kept)) for name, kept in found["cached"].items()
            },
            nodes=found["nodes"],
            jobs={one: JobEntry.from_dict(item) for one, item in jobs.items()},
            bundles={one: BundleEntry.from_dict(item) for one, item in bundles.items()},
            sources={path: (one[0], one[1], one[2]) for path, one in found["sources"].items()},
            siblings=siblings,
        )


def marker_text(signature: str, used: Mapping[str, object] | None = None) -> str:
    """Return the marker of a bundle that is done: what signs it, and what its jobs ``used``."""
    return json.dumps({"signature": signature, **({"used": used} if used else {})}) + "\n"


class _NoJob(Exception):
    """The rule has no such job."""


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} where a text is expected")
    return value


def _keys(found: Iterable[Sequence[str]]) -> tuple[Key, ...]:
    return tuple((node, port) for node, port in found)
