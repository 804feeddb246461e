"""Which jobs a build folder has, which of them ran in a call, and words to choose some of them.

A choice says what it wants by stage, dataset, file and variation, never by the names of rules, so
that one choice serves any granularity: ``stages("Mass") & dataset("dy") | ends("dy")`` are the
jobs that hold stage Mass for dataset dy, and what comes after the partitions of dy.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "ALL",
    "FINISH",
    "NOTHING",
    "PUBLISH",
    "Choice",
    "Job",
    "dataset",
    "ends",
    "executed",
    "file",
    "jobs_of",
    "merges",
    "said_by_snakemake",
    "said_to_run",
    "stages",
    "variation",
]


@dataclass(frozen=True)
class Job:
    """One job of a translation, as its task table has it. ``stages`` are the ids of its nodes."""

    rule: str
    key: str
    scope: str
    stages: frozenset[str]
    dataset: str | None
    file: str | None
    variation: str
    record: Path

    def __str__(self) -> str:
        return f"{self.rule} {self.key}".strip()


@dataclass(frozen=True)
class Choice:
    """Some of a translation's jobs."""

    holds: Callable[[Job], bool]

    def __or__(self, other: Choice) -> Choice:
        return Choice(lambda job: self.holds(job) or other.holds(job))

    def __and__(self, other: Choice) -> Choice:
        return Choice(lambda job: self.holds(job) and other.holds(job))

    def __sub__(self, other: Choice) -> Choice:
        return Choice(lambda job: self.holds(job) and not other.holds(job))

    def of(self, jobs: list[Job]) -> set[str]:
        return {str(job) for job in jobs if self.holds(job)}


def stages(*names: str) -> Choice:
    """The jobs of partitions that hold one of these stages, or nodes such as ``read.events``."""
    return Choice(lambda job: job.scope == "partition" and not job.stages.isdisjoint(names))


def dataset(*names: str) -> Choice:
    """The jobs of partitions of these datasets."""
    return Choice(lambda job: job.scope == "partition" and job.dataset in names)


def file(*names: str) -> Choice:
    """The jobs of partitions of these input files."""
    return Choice(lambda job: job.scope == "partition" and job.file in names)


def variation(*names: str) -> Choice:
    """The jobs of these systematic variations; a job that several share is the first one's."""
    return Choice(lambda job: job.variation in names)


def merges(*names: str) -> Choice:
    """The reductions of these datasets, or of all."""
    return Choice(lambda job: job.scope == "merge" and (not names or job.dataset in names))


def ends(*names: str) -> Choice:
    """What comes after the partitions of these datasets, or of all, up to the results."""
    return merges(*names) | FINISH | PUBLISH


FINISH = Choice(lambda job: job.scope == "finish")
PUBLISH = Choice(lambda job: job.scope == "publish")
ALL = Choice(lambda _: True)
NOTHING = Choice(lambda _: False)


def jobs_of(build: Path) -> list[Job]:
    """Return all jobs of the latest translation into a build folder."""
    return [
        job
        for path in sorted((build / "smk/tasks").glob("*.json"))
        for job in _jobs(build, json.loads(path.read_text(encoding="utf-8")))
    ]


def _jobs(build: Path, table: dict) -> Iterator[Job]:
    for key, entry in table["jobs"].items():
        yield Job(
            rule=table["rule"],
            key=key,
            scope=table["scope"],
            stages=frozenset(node.removeprefix("stage.") for node in entry["nodes"]),
            dataset=entry["dataset"],
            file=(entry["partition"] or {}).get("file"),
            variation=entry["variation"],
            record=build / entry["record"],
        )


def executed(jobs: list[Job], since: float) -> set[str]:
    """Return the jobs whose records say that they were started at or after ``since``.

    A job without a record has not run: nothing needs it.
    """
    return {
        str(job)
        for job in jobs
        if job.record.exists()
        and json.loads(job.record.read_text(encoding="utf-8"))["started"] >= since
    }


def said_to_run(text: str) -> Counter[str]:
    """Return how many jobs of each rule a call says it runs, or would run with ``-n``."""
    return Counter({rule: int(number) for number, rule in re.findall(r"(\d+) x (\w+)", text)})


def said_by_snakemake(text: str) -> Counter[str]:
    """Return how many jobs of each rule Snakemake lists, without its own rule ``all``."""
    table = text.partition("Job stats:")[2].partition("\ntotal")[0]
    found = re.findall(r"^(\w+) +(\d+)$", table, re.MULTILINE)
    return Counter({rule: int(number) for rule, number in found if rule != "all"})
