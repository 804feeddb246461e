"""What Snakemake's process reports of a run: one line of JSON for each event.

Most are log events of Snakemake's own (``snakemake_interface_logger_plugins.LogEvent``) with the
fields that a run needs; ``Submitted``, ``Moved`` and ``Problem`` come from our executors.
Snakemake numbers its jobs; a number stands for the same job in all attempts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import msgspec

from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.shapes import ready


@dataclass(frozen=True)
class JobsPlanned:
    """How many jobs of each rule there are to do, before the first starts."""

    rules: Mapping[str, int]


@dataclass(frozen=True)
class JobStarted:
    """A job starts, or is handed to a batch system. ``outputs`` are paths in the build folder."""

    number: str
    rule: str
    outputs: list[str]


@dataclass(frozen=True)
class JobFinished:
    """A job has ended well."""

    number: str


@dataclass(frozen=True)
class JobFailed:
    """An attempt at a job has failed.

    ``logs`` are the job's own log and what the batch system captured of it; ``message`` is what
    the executor says.
    """

    number: str
    rule: str
    logs: list[str]
    message: str


@dataclass(frozen=True)
class JobRetried:
    """A job that has failed is tried again."""

    number: str


@dataclass(frozen=True)
class GroupFailed:
    """Several jobs that were submitted as one batch job have failed.

    ``numbers`` are those of the jobs, ``logs`` what the batch system captured of them together.
    """

    numbers: list[str]
    logs: list[str]
    message: str


@dataclass(frozen=True)
class Submitted:
    """A batch system has taken a job; ``batch_id`` is the number that this gives it."""

    batch_id: str


@dataclass(frozen=True)
class Moved:
    """Jobs of a rule have waited some seconds for a pool, and go to another, their fallback.

    ``places`` are the values of their wildcards, each as a path.
    """

    rule: str
    places: list[str]
    numbers: list[str]
    waited: int
    pool: str
    to: str


@dataclass(frozen=True)
class Progressed:
    """So many of all jobs are done, Snakemake's own rule ``all`` among both."""

    done: int
    total: int


@dataclass(frozen=True)
class ReportedProblem:
    """What the user has to know at once, such as a batch system that does not answer."""

    text: str


Event = (
    JobsPlanned
    | JobStarted
    | JobFinished
    | JobFailed
    | JobRetried
    | GroupFailed
    | Submitted
    | Moved
    | Progressed
    | ReportedProblem
)  # fmt: skip
_KINDS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        JobsPlanned, JobStarted, JobFinished, JobFailed, JobRetried, GroupFailed, Submitted, Moved,
        Progressed, ReportedProblem,
    )
}  # fmt: skip


def to_line(event: Event) -> str:
    """Return the line of an event, with its end."""
    return json.dumps({"kind": type(event).__name__, **asdict(event)}) + "\n"


def from_line(line: str) -> Event | None:
    """Return the event of a line; ``None`` if it is none.

    A process that was killed may leave half a line, and a file may hold anything.
    """
    try:
        fields: JsonObject = json.loads(line)
        return msgspec.convert(fields, ready(_KINDS[fields.pop("kind")]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, msgspec.MsgspecError):
        return None
