"""What Snakemake's process reports of a run: one line of JSON for each event.

Most are log events of Snakemake's own (``snakemake_interface_logger_plugins.LogEvent``) with the
fields that a run needs; ``Submitted``, ``Moved`` and ``ReportedProblem`` come from our executors.
Snakemake numbers its jobs; a number stands for the same job in all attempts.
"""

from __future__ import annotations

import json

import msgspec

from fasthep_smk.util.shapes import ready


class _Event(msgspec.Struct, tag=True, tag_field="kind"):
    """A line says its kind, and then its fields."""


class JobsPlanned(_Event):
    """How many jobs of each rule there are to do, before the first starts."""

    rules: dict[str, int]


class JobStarted(_Event):
    """A job starts, or is handed to a batch system. ``outputs`` are paths in the build folder."""

    number: str
    rule: str
    outputs: list[str]


class JobFinished(_Event):
    """A job has ended well."""

    number: str


class JobFailed(_Event):
    """An attempt at a job has failed.

    ``logs`` are the job's own log and what the batch system captured of it; ``message`` is what
    the executor says.
    """

    number: str
    rule: str
    logs: list[str]
    message: str


class JobRetried(_Event):
    """A job that has failed is tried again."""

    number: str


class GroupFailed(_Event):
    """Several jobs that were submitted as one batch job have failed.

    ``numbers`` are those of the jobs, ``logs`` what the batch system captured of them together.
    """

    numbers: list[str]
    logs: list[str]
    message: str


class Submitted(_Event):
    """A batch system has taken a job; ``batch_id`` is the number that this gives it."""

    batch_id: str


class Moved(_Event):
    """Jobs of a rule have waited some seconds for a pool, and go to another, their fallback.

    ``places`` are the values of their wildcards, each as a path.
    """

    rule: str
    places: list[str]
    numbers: list[str]
    waited: int
    pool: str
    to: str


class ReportedProblem(_Event):
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
    | ReportedProblem
)


def to_line(event: Event) -> str:
    """Return the line of an event, with its end."""
    return json.dumps(msgspec.to_builtins(event)) + "\n"


def from_line(line: str) -> Event | None:
    """Return the event of a line; ``None`` if it is none.

    A process that was killed may leave half a line, and a file may hold anything.
    """
    try:
        event: Event = msgspec.convert(json.loads(line), ready(Event))
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None
    return event
