"""What the finished jobs of a build folder took, by their records, and what is said of others.

A job's memory is the most that its largest process held: also of one that was forked, and of one in
a bundle, whose jobs run in processes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from fasthep_smk.config.requests import Attempt
from fasthep_smk.storage import layout
from fasthep_smk.storage.jobs import TaskJob, head_of, read_jobs
from fasthep_smk.util import files
from fasthep_smk.util.shapes import ready


@dataclass(frozen=True, kw_only=True)
class Changing:
    """``sizes.json`` of each rule whose jobs may ask for other amounts while the run goes on.

    ``stated`` is what is said of each attempt, ``own`` the same of jobs at some places, ``taken``
    are memory, seconds and entries of the jobs that are done, by their pools. ``wildcards`` name a
    job of Snakemake's, which is ``together`` of ours at most and lasts for ``longest`` seconds at
    most, attempt by attempt.
    """

    stated: Annotated[tuple[Attempt, ...], msgspec.Meta(min_length=1)]
    wildcards: tuple[str, ...]
    own: Mapping[str, tuple[Attempt, ...]] = field(default_factory=dict)
    taken: Mapping[str, list[tuple[int, float, int | None]]] = field(default_factory=dict)
    together: int = 1
    longest: tuple[int | None, ...] = ()


def read_changing(build: Path) -> dict[str, Changing]:
    """Return the rules of a build folder whose jobs may ask for other amounts in its run.

    None where there is no such file, or it cannot be read: jobs ask for what was translated.
    """
    try:
        return msgspec.json.decode(
            files.read_plain(build / layout.SIZES), type=ready(dict[str, Changing])
        )
    except (OSError, msgspec.MsgspecError):
        return {}


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What a job took and had asked for: bytes and seconds; ``events`` are those of a partition."""

    rule: str
    scope: str
    stages: tuple[str, ...]
    pool: str
    dataset: str | None
    file: str
    memory: int
    seconds: float
    events: int | None
    asked_memory: int | None
    asked_time: int | None


#: What jobs took, by their scope, stages and pool.
History = Mapping[tuple[str, tuple[str, ...], str], Sequence[Taken]]


def taken(build: Path) -> Iterator[Taken]:
    """Yield what each finished job took, in the order of the run.

    Those are left out that adopted a part of their results, as they did less than others, and those
    with a modifier that measures a stage, which takes more.

    Raises:
        Findings: a task table cannot be read.
    """
    counted = entries(build)
    for job in read_jobs(build):
        if (took := taken_by(build, job, counted)) is not None:
            yield took


def taken_by(build: Path, job: TaskJob, counted: Mapping[str, int]) -> Taken | None:
    """Return what a job took; ``None``: it is not done, or others take more or less.

    ``counted`` is how many entries input files have.
    """
    if job.entry.measured:
        return None
    head = head_of(build, job)
    if head is None or head.adopted or (memory := head.used.get("memory", 0)) <= 0:
        return None
    return Taken(
        rule=job.rule,
        scope=job.scope,
        stages=job.stages,
        pool=head.asked.get("pool", ""),
        dataset=job.entry.dataset,
        file=job.entry.file or "",
        memory=memory,
        seconds=max(0.0, head.ended - head.started),
        events=head.events or events_of(job, counted),
        asked_memory=head.asked.get("memory"),
        asked_time=head.asked.get("walltime"),
    )


def entries(build: Path) -> dict[str, int]:
    """Return how many entries input files have, by what identifies them."""
    try:
        cache = files.unseal(files.read_plain(build / layout.INPUTS))["files"]
        return {
            name.rpartition("|")[0]: max(facts["entries"].values())
            for name, facts in cache.items()
            if facts.get("entries")
        }
    except (OSError, files.Altered, KeyError, TypeError, ValueError, AttributeError):
        return {}


def events_of(job: TaskJob, counted: Mapping[str, int]) -> int | None:
    """Return how many events the partition of a job has."""
    if job.entry.partition is None or job.entry.events is not None:
        return job.entry.events
    origin = job.entry.origin
    counts = [counted.get(file) for file in (origin["files"] if origin else ())]
    return counts[0] if len(counts) == 1 else None
