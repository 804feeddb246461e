"""What the finished jobs of a build folder took, by their records.

A job's memory is the most that its largest process held: also of one that was forked, and of one in
a bundle, whose jobs run in processes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fasthep_smk.storage.jobs import TaskJob, head_of, read_jobs
from fasthep_smk.util.documents import JsonObject

__all__ = ["Taken", "taken"]


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What a job took and had asked for: bytes and seconds; ``events`` are those of a partition."""

    rule: str
    scope: str
    stages: tuple[str, ...]
    pool: str
    dataset: str | None
    memory: int
    seconds: float
    events: int | None
    asked_memory: int | None
    asked_time: int | None


def taken(build: Path) -> Iterator[Taken]:
    """Yield what each finished job took, in the order of the run.

    Those are left out that adopted a part of their results: they did less than others.

    Raises:
        Findings: a task table cannot be read.
    """
    for job in read_jobs(build):
        head = head_of(build, job)
        if head is not None and not head.get("adopted"):
            one = _taken(job, head)
            if one is not None:
                yield one


def _taken(job: TaskJob, head: JsonObject) -> Taken | None:
    asked, used = head.get("asked"), head.get("used")
    if not isinstance(asked, dict) or not isinstance(used, dict):
        return None
    memory, started, ended = used.get("memory"), head.get("started"), head.get("ended")
    if not isinstance(memory, int) or memory <= 0:
        return None
    if not isinstance(started, int | float) or not isinstance(ended, int | float):
        return None
    return Taken(
        rule=job.rule,
        scope=job.scope,
        stages=job.stages,
        pool=str(asked.get("pool") or ""),
        dataset=job.entry.dataset,
        memory=memory,
        seconds=max(0.0, ended - started),
        events=_whole(head.get("events")),
        asked_memory=_whole(asked.get("memory")),
        asked_time=_whole(asked.get("walltime")),
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
