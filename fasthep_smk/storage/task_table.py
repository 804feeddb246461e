"""The task table of a rule: what each of its jobs is. One shape, for all who write or read it.

The translation writes one JSON file for each rule (``smk/tasks/<rule>.json``). Snakemake looks up
in it what a job waits for, a worker what to do, the transfer what to send along, ``status`` and
``clean`` which jobs there are. The classes are its schema, too: what they do not say is refused
(``msgspec.json.schema(TaskTable)`` returns it as JSON).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypedDict

import msgspec
from msgspec import Meta, Struct

from fasthep_smk.flow.records import MissingPartition, PartitionData, SampleFacts, Sight
from fasthep_smk.flow.shapes import Key
from fasthep_smk.storage import layout
from fasthep_smk.util.errors import SmkError
from fasthep_smk.util.shapes import ready

#: Identity, size (bytes) and modification time (ns) of a file that a signature knows.
Source = tuple[str | None, int, int]
#: When the jobs of a rule run.
JobScope = Literal["side", "partition", "merge", "finish", "publish"]
_Signature = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
_JobName = Annotated[str, Meta(pattern="^([A-Za-z0-9_]+(/[A-Za-z0-9_]+)*)?$")]
_BundleName = Annotated[str, Meta(pattern="^[A-Za-z0-9_]+(/[A-Za-z0-9_]+)*/bundle_[0-9]+$")]
_Wildcard = Annotated[str, Meta(pattern="^(variation|dataset|part|bundle)$")]
#: The signature of a node, and what of the run it may see.
NodeFacts = tuple[_Signature, list[Sight]]


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


class _Shape(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is read as it is written: no other keys, and none that says what goes without saying."""


class Kept(_Shape, frozen=True):
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


class Read(_Shape, frozen=True):
    """Products that a job takes from another job's folder; none if it only has to run after.

    ``marker`` is the file of the bundle that the other job is in.
    """

    folder: str
    keys: tuple[Key, ...]
    marker: str | None = None


class Adopted(_Shape, frozen=True):
    """What a job adopts from one folder (relative to the build) of a job so signed.

    ``nodes`` are those whose records come from there, ``keys`` the job's own products, ``streams``
    what nodes that run read, ``cached`` the streams that are kept on, ``results`` files for the
    user, relative to the build folder.
    """

    folder: str
    signature: _Signature
    nodes: tuple[str, ...]
    keys: tuple[Key, ...]
    streams: tuple[Key, ...]
    cached: tuple[Key, ...]
    results: tuple[str, ...]


class Part(_Shape, frozen=True):
    """The nodes of a job that run, what they read of other jobs, and what is adopted."""

    nodes: tuple[str, ...]
    reads: tuple[Read, ...]
    adopted: Annotated[tuple[Adopted, ...], Meta(min_length=1)]


class JobEntry(_Shape, frozen=True, kw_only=True):
    """One job. All paths but those in ``inputs``, ``files`` and ``partition`` are in the build.

    ``inputs`` are the files that Snakemake waits for. ``target``: it makes something for the user.
    ``signed_as`` names the signatures of its nodes among those of the rule, ``origin`` is where a
    partition's events come from. ``partition`` is written as FAST-HEP's plan does. ``files`` are
    input files as the plan knows them, ``path|size|time in ns|first bytes`` by path. ``values`` are
    signatures of what nodes at the end of a run make, each by itself; ``missing`` the partitions
    that the end of the run goes without, ``sample`` of how many it is. With a ``part``, only that
    of the job has to run. ``file_digest`` is what random numbers are seeded with on a worker where
    the input file has another name. A job is ``measured`` if a modifier of a stage of it, which
    measures that, takes memory and time itself.
    """

    inputs: tuple[str, ...]
    record: str
    target: bool
    signature: _Signature
    signed_as: str
    origin: OriginFacts | None
    folder: str
    plan: str
    variation: str
    dataset: str | None
    partition: PartitionData | None
    nodes: tuple[str, ...]
    reads: tuple[Read, ...]
    files: dict[str, str] = {}
    values: dict[str, _Signature] = {}
    missing: tuple[MissingPartition, ...] = ()
    sample: SampleFacts | None = None
    part: Part | None = None
    file_digest: str | None = None
    measured: bool = False

    @property
    def file(self) -> str | None:
        """The input file of its partition, as the workflow writes it."""
        return self.partition["file"] if self.partition else None

    @property
    def events(self) -> int | None:
        """How many events its partition has, if it is one's, and that is known."""
        part = self.partition
        if part is None or part["start"] is None or part["stop"] is None:
            return None
        return part["stop"] - part["start"]

    @property
    def adopted(self) -> tuple[Adopted, ...]:
        """What it adopts from earlier jobs."""
        return self.part.adopted if self.part else ()


class BundleEntry(_Shape, frozen=True):
    """Jobs, by their keys, that are one job of Snakemake's.

    ``marker`` is the file that says that all of them are done.
    """

    jobs: Annotated[tuple[str, ...], Meta(min_length=1)]
    marker: str
    signature: _Signature


class TaskTable(_Shape, frozen=True, kw_only=True):
    """What the jobs of a rule have in common, and its jobs by their keys.

    ``stages`` and ``pool`` are for people. ``wildcards`` name the jobs of Snakemake, ``outputs``
    are the names of the files in each job's folder. ``keeps`` outlive a job, ``cached`` (by
    ``signed_as``) are event streams that are kept if that costs little. ``nodes`` are, by
    ``signed_as``, the facts of each node, ``sources`` the files that signatures know besides the
    inputs. ``siblings`` is how many jobs the rule has, where the table does not hold all of them.
    """

    rule: Annotated[str, Meta(pattern="^[A-Za-z0-9_]+$")]
    scope: JobScope
    stages: tuple[str, ...]
    pool: str
    wildcards: tuple[_Wildcard, ...]
    outputs: tuple[str, ...]
    keeps: tuple[Kept, ...]
    cached: Mapping[str, tuple[Kept, ...]]
    nodes: Mapping[str, Mapping[str, NodeFacts]]
    jobs: Mapping[_JobName, JobEntry]
    bundles: Mapping[_BundleName, BundleEntry]
    sources: Mapping[str, Source]
    siblings: Annotated[int, Meta(ge=1)] | None = None

    @property
    def number_of_jobs(self) -> int:
        return self.siblings or len(self.jobs)

    def only(self, key: str) -> TaskTable:
        """Return the table of one job or bundle of jobs.

        Raises:
            KeyError: the rule has no such job.
        """
        bundles = {key: self.bundles[key]} if key in self.bundles else {}
        keys = bundles[key].jobs if bundles else (key,)
        jobs = {job_key: self.jobs[job_key] for job_key in keys}
        siblings = self.number_of_jobs
        return msgspec.structs.replace(self, jobs=jobs, bundles=bundles, siblings=siblings)

    def to_text(self, *, indent: int = 0) -> str:
        """Return the table as its file holds it: in one line, or indented for people."""
        with contextlib.suppress(UnicodeEncodeError):
            content = msgspec.json.encode(self)
            if content.isascii():
                return msgspec.json.format(content, indent=indent).decode() + "\n"
        # Other letters are written as ASCII, and so are bytes of a path that are no text.
        return json.dumps(msgspec.to_builtins(self), indent=indent or None) + "\n"

    @classmethod
    def read(cls, build: Path, rule: str, key: str | None = None) -> TaskTable:
        """Return the table of a rule; with ``key``, of that job or bundle of jobs only.

        Raises:
            OSError: there is none.
            KeyError: the rule has no such job.
            UnreadableTable: it is no table that this version has written.
        """
        path = build / layout.table(rule)
        content = path.read_bytes()
        try:
            if rb"\ud" in content:  # bytes of a path that are no text: msgspec refuses them
                table = msgspec.convert(json.loads(content.decode()), ready(cls))
            else:
                table = msgspec.json.decode(content, type=ready(cls))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise UnreadableTable(
                f"{path} is not a task table of this version of fasthep-smk ({error}); "
                "'fasthep-smk translate workflow.yaml' writes it again"
            ) from error
        return table if key is None else table.only(key)


def marker_text(signature: str) -> str:
    """Return the marker of a bundle that is done: what signs it."""
    return json.dumps({"signature": signature}) + "\n"
