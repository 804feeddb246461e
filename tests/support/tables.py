"""Task tables for tests of what reads them: all that a test does not say is empty."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fasthep_smk.storage.task_table import JobEntry, TaskTable
from fasthep_smk.worker.job import Sent, WorkerJob


def signed(name: str = "") -> str:
    """Return a signature as good as any, of a short name."""
    return name.encode().hex().zfill(32)


def entry(**fields: Any) -> JobEntry:
    given: dict[str, Any] = {
        "inputs": (),
        "record": "smk/work/r/k/record.json",
        "target": False,
        "signature": signed(),
        "signed_as": "",
        "origin": None,
        "folder": "smk/work/r/k",
        "plan": "smk/plans/nominal.json",
        "variation": "nominal",
        "dataset": None,
        "partition": None,
        "nodes": (),
        "reads": (),
    }
    return JobEntry(**{**given, **fields})


def table(*, rule: str = "r", **fields: Any) -> TaskTable:
    given: dict[str, Any] = {
        "scope": "partition",
        "stages": (),
        "pool": "default",
        "wildcards": (),
        "outputs": (),
        "keeps": (),
        "cached": {},
        "nodes": {},
        "jobs": {},
        "bundles": {},
        "sources": {},
    }
    return TaskTable(rule=rule, **{**given, **fields})


def job(
    build: Path, rule: str, scope: str, key: str, sent: Sent | None = None, **of: Any
) -> WorkerJob:
    """Return a job of a rule that has no other; ``of`` are fields of its entry."""
    one = table(rule=rule, scope=scope, jobs={key: entry(**of)})
    return WorkerJob(build, one, key, sent or Sent())
