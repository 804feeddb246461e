"""Which of the jobs that were submitted from a build folder are in a batch system's queue."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk import sites
from fasthep_smk.storage import batch_jobs
from fasthep_smk.storage.batch_jobs import BatchJob

if TYPE_CHECKING:
    from fasthep_smk.sites import Queued

__all__ = ["Left", "find"]

_PAUSE = 0.5


@dataclass(frozen=True)
class Left:
    """A job that is in the queue."""

    job: BatchJob
    queued: Queued


def find(build: Path, *, patience: float = 0.0) -> list[Left] | None:
    """Return what a batch system still has of a build folder's jobs.

    A submission whose process was killed may still arrive: ``patience`` is for how long. ``None``
    if a system does not answer.
    """
    noted = batch_jobs.read(build)
    end = time.monotonic() + patience
    while True:
        found = _matching(noted, build)
        if found is None or time.monotonic() > end:
            return found
        seen = {left.job.token for left in found}
        if all(one.batch_id or one.token in seen for one in noted):
            return found
        time.sleep(_PAUSE)


def _matching(noted: list[BatchJob], build: Path) -> list[Left] | None:
    found: list[Left] = []
    for system in dict.fromkeys(one.system for one in noted):
        queued = sites.system(system).queued(build)
        if queued is None:
            return None
        mine = [one for one in noted if one.system == system]
        known = {one.batch_id.partition("_")[0]: one for one in mine if one.batch_id}
        found += [
            Left(job, one)
            for one in queued  # numbers may begin anew, and another one's job may have this one
            if (job := known.get(one.batch_id)) and job.name in ("", one.name)
        ]
        # Of a submission whose answer was not heard, the name tells.
        for lost in (one for one in mine if not one.batch_id and one.name):
            named = [one for one in queued if one.name == lost.name and one.batch_id not in known]
            alike = [one for one in mine if one.name == lost.name and not one.batch_id]
            sure = len(named) == len(alike) == 1
            for one in named:
                job = replace(lost, batch_id=one.batch_id)
                found.append(Left(job if sure else replace(job, signature=""), one))
    return found
