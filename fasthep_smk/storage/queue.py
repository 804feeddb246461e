"""Which of the jobs that were submitted from a build folder are in a batch system's queue.

During a run, that is noted now and then: afterwards no system says any more why a job has waited.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fasthep_smk import sites
from fasthep_smk.storage import batch_jobs, layout
from fasthep_smk.storage.batch_jobs import BatchJob
from fasthep_smk.util import files
from fasthep_smk.util.shapes import ready
from fasthep_smk.util.waiting import until

if TYPE_CHECKING:
    from fasthep_smk.sites import Queued

_PAUSE = 0.5


@dataclass(frozen=True)
class Left:
    """A job that is in the queue."""

    job: BatchJob
    queued: Queued


@dataclass(frozen=True)
class Waited:
    """How many jobs of a pool waited at one moment for one reason, in the system's own word."""

    time: float
    pool: str
    reason: str
    jobs: int


class _Note(msgspec.Struct):
    """What was noted at one moment: pools, reasons, and how many jobs waited there for that."""

    time: float
    waiting: list[tuple[str, str, int]]


def note(build: Path, pools: Mapping[str, str]) -> None:
    """Note which jobs wait now and why; ``pools`` are those of the rules.

    Nothing is noted if the batch system does not answer.
    """
    remaining = find(build)
    if remaining is None:
        return
    counts = Counter(
        (left.job.pilot or pools.get(left.job.rule, ""), left.queued.reason)
        for left in remaining
        if left.queued.state == "waiting"
    )
    waiting = [(pool, reason, many) for (pool, reason), many in counts.items()]
    line = msgspec.json.encode(_Note(round(time.time(), 3), waiting))
    with (build / layout.QUEUE_NOTES).open("ab") as stream:
        stream.write(line + b"\n")


def noted(build: Path) -> list[Waited]:
    """Return what was noted in the last run; lines that cannot be understood are left out."""
    try:
        lines = files.read_plain(build / layout.QUEUE_NOTES).decode(errors="replace").splitlines()
    except OSError:
        return []
    waits = []
    for line in lines:
        with contextlib.suppress(msgspec.MsgspecError, RecursionError):
            note = msgspec.json.decode(line, type=ready(_Note))
            waits += [Waited(note.time, *entry) for entry in note.waiting]
    return waits


def find(build: Path, *, patience: float = 0.0) -> list[Left] | None:
    """Return what a batch system still has of a build folder's jobs.

    A submission whose process was killed may still arrive, and a command may fail now and then:
    ``patience`` is for how long to ask again. ``None`` if a system does not answer.
    """
    noted = batch_jobs.read(build)

    def is_complete(remaining: list[Left] | None) -> bool:
        seen = {left.job.token for left in remaining or ()}
        return remaining is not None and all(job.batch_id or job.token in seen for job in noted)

    return until(
        lambda: _matching(noted, build), seconds=patience, pause=_PAUSE, enough=is_complete
    )


def _matching(noted: list[BatchJob], build: Path) -> list[Left] | None:
    remaining: list[Left] = []
    for system in dict.fromkeys(job.system for job in noted):
        queued = sites.system(system).queued(build)
        if queued is None:
            return None
        mine = [job for job in noted if job.system == system]
        by_id = {job.batch_id.partition("_")[0]: job for job in mine if job.batch_id}
        remaining += [
            Left(job, entry)
            for entry in queued  # numbers may begin anew, and another one's job may have this one
            if (job := by_id.get(entry.batch_id)) and job.name in ("", entry.name)
        ]
        # Of a submission whose answer was not heard, the name tells.
        for lost in (job for job in mine if not job.batch_id and job.name):
            named = [job for job in queued if job.name == lost.name and job.batch_id not in by_id]
            alike = [job for job in mine if job.name == lost.name and not job.batch_id]
            sure = len(named) == len(alike) == 1
            for entry in named:
                job = replace(lost, batch_id=entry.batch_id)
                remaining.append(Left(job if sure else replace(job, signature=""), entry))
    return remaining
