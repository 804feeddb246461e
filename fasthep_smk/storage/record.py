"""The record of a finished job: the shape of ``record.json``, for all who write or read it.

It is the last file that a job writes (`fasthep_smk.storage.products`), and stays a mapping as JSON
has it: thousands of them are read at the start of a run. ``record.schema.json`` is what a record
from elsewhere is checked with.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict, cast

import msgspec

from fasthep_smk.storage.layout import RECORD, is_result
from fasthep_smk.storage.task_table import NodeFacts, OriginFacts, Read
from fasthep_smk.util import files
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.errors import Finding, Findings
from fasthep_smk.util.files import FileFacts
from fasthep_smk.util.shapes import ready

if TYPE_CHECKING:
    from fasthep_smk.flow.records import PartitionData, ProductOutline

#: Changes when a file written before cannot be read any more.
FORMAT = 2
#: What stands in a record behind its head, and in how many bytes most heads end.
_AFTER_HEAD, _HEAD = b',\n "results": ', 16384


class Asked(TypedDict, total=False):
    """What a job was sent out with: amounts in bytes and seconds."""

    pool: str
    cpus: int
    memory: int | None
    disk: int | None
    gpus: int
    walltime: int | None


class Used(TypedDict, total=False):
    """What a job took: memory in bytes, at most; seconds of CPU; whether it was forked.

    ``read`` and ``written`` are bytes, as the kernel counts calls that do it.
    """

    memory: int
    cpu: float
    warm: bool
    read: int
    written: int


class EarlierAttempt(TypedDict):
    """An attempt that failed before: where it ran, and what it died of."""

    attempt: int
    pool: str | None
    host: str | None
    problem: str
    kind: str
    batch_job: NotRequired[str | None]
    memory: NotRequired[int | None]
    used: NotRequired[int | None]
    started: NotRequired[float | None]
    ended: NotRequired[float | None]


class MadeOf(TypedDict):
    """What the products of a job follow from; ``reads`` are the folders of other jobs."""

    nodes: dict[str, NodeFacts]
    origin: OriginFacts | None
    reads: list[str]


def made_of(
    nodes: Iterable[str],
    reads: Iterable[Read],
    facts: Mapping[str, NodeFacts],
    origin: OriginFacts | None,
) -> MadeOf:
    """Return what the products of a job follow from; ``facts`` are those of its rule's nodes."""
    return {
        "nodes": {node: facts[node] for node in nodes},
        "origin": origin,
        "reads": [read.folder for read in reads],
    }


class ProductEntry(TypedDict):
    """A product of a job. ``live`` are the columns of a stream, ``None``: all of them.

    ``spare``, as records have called it from the first, is that of a cached stream.
    """

    node: str
    port: str
    kind: str
    type: str
    value: object
    live: NotRequired[list[str] | None]
    spare: NotRequired[bool]


class RunFacts(TypedDict):
    """What FAST-HEP recorded of a job, or of one that it reduced; the items are FAST-HEP's."""

    partition: PartitionData | None
    boundary: list[ProductOutline]
    operations: list[JsonObject]
    resources: JsonObject
    hooks: list[JsonObject]
    warnings: list[JsonObject]


class ValueFacts(TypedDict):
    """What a node at the end of a run made: its signature, and its files in the build folder."""

    value: str
    files: list[str]


class PoolCount(TypedDict):
    """How many jobs ran on a batch system in a pool."""

    system: str
    pool: str
    jobs: int


class Saved(TypedDict):
    """The products of a job, and the files in its folder."""

    format: int
    products: list[ProductEntry]
    files: dict[str, FileFacts]


class Told(TypedDict, total=False):
    """What a later run may adopt from a job.

    ``values`` are what nodes at the end of a run made. ``ran`` are the nodes that ran, and
    ``adopted`` the jobs that made the rest, if not all nodes had to run.
    """

    values: dict[str, ValueFacts]
    ran: list[str]
    adopted: list[str]


class Content(Saved, Told):
    """What a job itself says in its record.

    ``ran_on`` is where this job and all before it ran, if it comes after the partitions.
    """

    runs: list[RunFacts]
    ran_on: NotRequired[list[PoolCount]]


def content_of(saved: Saved, runs: Iterable[RunFacts]) -> Content:
    """Return what a job says in its record: its products, and what FAST-HEP recorded."""
    return cast("Content", {**saved, "runs": list(runs)})


class Record(Content):
    """All of it. ``submitted``, ``started`` and ``ended`` are seconds since 1970 (UTC).

    ``outside`` are files that FAST-HEP's writers and plots have made outside the build folder: by
    node and absolute path their stamps (:func:`files.stamp`).

    ``submitted`` is known of jobs that a batch system or a pilot got, each for itself or in a
    bundle; ``events`` is how many a partition has. ``waited_for`` is the pool that has not come in
    time: it ran in its fallback.
    """

    rule: str
    key: str
    signature: str
    waited_for: NotRequired[str | None]
    observed: NotRequired[list[str]]
    host: str
    pid: int
    submitted: NotRequired[float | None]
    started: float
    ended: float
    attempt: int
    threads: int
    asked: Asked
    used: Used
    events: NotRequired[int | None]
    system: NotRequired[str]
    batch_job: str | None
    earlier: list[EarlierAttempt]
    results: dict[str, FileFacts]
    outside: NotRequired[dict[str, dict[str, str]]]
    made_of: MadeOf
    build: NotRequired[str]


class Head(msgspec.Struct):
    """What a record says, before its ``results``, of how its job ran."""

    signature: str
    started: float
    ended: float
    asked: Asked
    used: Used
    waited_for: str | None = None
    observed: tuple[str, ...] = ()
    earlier: list[dict[str, object]] = []
    host: str = ""
    threads: int = 1
    submitted: float | None = None
    events: int | None = None
    batch_job: str | None = None
    adopted: tuple[str, ...] = ()


@dataclass(eq=False)
class Damaged(Findings):
    """A finished job's file is missing, truncated or altered; ``record`` is that job's record."""

    record: Path = field(default_factory=Path)


def write_record(folder: Path, record: Record) -> None:
    """Write the record, its head first: from here on the job counts as done."""
    content = cast("JsonObject", record)
    head = {name: content[name] for name in Head.__struct_fields__ if name in content}
    with files.atomic_path(folder / RECORD) as temporary:
        temporary.write_text(files.seal({**head, **content}), encoding="utf-8")


def read_record(folder: Path) -> Record:
    """Return the record of a finished job.

    Raises:
        Damaged: the record is missing, altered or of another format.
    """
    path = folder / RECORD
    try:
        record = files.unseal(files.read_plain(path))
    except OSError as error:
        raise corrupt(path, f"cannot be read ({error.strerror or error})") from error
    except files.Altered as error:
        raise corrupt(path, f"was altered: {error}") from error
    if record.get("format") != FORMAT:
        raise corrupt(path, "was written by another version of fasthep-smk")
    _check_names(path, record)
    return cast("Record", record)


def read_head(folder: Path) -> Head | None:
    """Return the head of a record, which is much shorter; ``None`` if there is none to be read."""
    try:
        text = files.read_plain(folder / RECORD, _HEAD)
        if _AFTER_HEAD not in text:
            text = files.read_plain(folder / RECORD)
        head, cut, _ = text.partition(_AFTER_HEAD)
        return msgspec.convert(json.loads(head + b"}" if cut else text), ready(Head))
    except (OSError, ValueError, RecursionError, msgspec.ValidationError):
        return None


def _check_names(path: Path, record: JsonObject) -> None:
    """Refuse a record that names files of others: they would be moved and removed with its own."""
    mine, results = record.get("files"), record.get("results", {})
    if not isinstance(mine, dict) or not isinstance(results, dict):
        raise corrupt(path, "does not list its files")
    for name in mine:
        if "/" in name or name in ("", ".", ".."):
            raise corrupt(path, f"refers to {name!r}, which is not in its folder")
    for name in results:
        if not is_result(name):
            raise corrupt(path, f"refers to {name!r}, which is not a result of an operation")


def corrupt(path: Path, problem: str) -> Damaged:
    finding = Finding(
        file=str(path),
        problem=f"this intermediate file {problem}",
        hint="its job runs again",
    )
    return Damaged([finding], path.parent / RECORD)
