"""What lies in a build folder: its jobs as last translated, and which of them are done.

Only files are read: nothing is compiled, and neither FAST-HEP nor Snakemake is imported.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fasthep_smk.storage import failures, layout
from fasthep_smk.storage.job_settings import read_requests
from fasthep_smk.storage.record import Head, read_head
from fasthep_smk.storage.task_table import JobEntry, TaskTable, UnreadableTable
from fasthep_smk.util.errors import Findings, WrongArgument

if TYPE_CHECKING:
    from fasthep_smk.storage.run_lock import LockNote

State = Literal["done", "running", "failed", "to do"]
STATES: tuple[State, ...] = ("done", "running", "failed", "to do")


@dataclass(frozen=True)
class TaskJob:
    """A job of a task table: its entry there, and what the table says of all of its rule.

    ``outputs`` are the names of the files in its folder.
    """

    rule: str
    key: str
    scope: str
    outputs: tuple[str, ...]
    entry: JobEntry
    stages: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """Where its products go, relative to the build folder."""
        return self.entry.folder


def find_build(folder: Path) -> Path:
    """Return the absolute path of a build folder.

    Raises:
        WrongArgument: it is not one.
    """
    build = folder.absolute()
    if (build / layout.TASKS).is_dir() or (build / layout.LOCK).is_file():
        return build
    raise WrongArgument.one(
        "is not a build folder of fasthep-smk" if build.exists() else "there is no such folder",
        key="BUILD",
        value=str(folder),
        expected="a folder that 'fasthep-smk workflow.yaml' has written to (it holds smk/tasks)",
    )


def read_jobs(build: Path) -> list[TaskJob]:
    """Return the jobs of a build folder as last translated, in the order of the run.

    Raises:
        Findings: a task table cannot be read.
    """
    tables: dict[str, list[TaskJob]] = {}
    for path in sorted((build / layout.TASKS).glob("*.json")):
        try:
            tables[path.stem] = _jobs(TaskTable.read(build, path.stem))
        except FileNotFoundError:
            continue  # a run that begins has just removed it
        except (OSError, UnreadableTable) as error:
            message = f"this task table cannot be read: {error}"
            raise Findings.one(message, file=str(path)) from error
    order = [*_rules_in_order(build), *tables]
    return [job for rule in dict.fromkeys(order) for job in tables.get(rule, [])]


def jobs_of(build: Path, rule: str) -> dict[str, list[TaskJob]]:
    """Return the jobs of a rule, each by its key, and those of bundles by the bundles'.

    Raises:
        OSError, UnreadableTable: its table cannot be read.
    """
    table = TaskTable.read(build, rule)
    single = {job.key: [job] for job in _jobs(table)}
    bundles = {key: [single[job][0] for job in b.jobs] for key, b in table.bundles.items()}
    return {**single, **bundles}


def head_of(build: Path, job: TaskJob) -> Head | None:
    """Return the head of the record of a job that is done, as what it is now."""
    head = read_head(build / job.folder)
    return head if head is not None and head.signature == job.entry.signature else None


def is_done(build: Path, job: TaskJob) -> bool:
    """Whether a job has its record, of what the job is now."""
    return head_of(build, job) is not None


def state_of(done: bool, note: failures.Failure | None, run: LockNote | None) -> State:
    """Return the state of a job, by the note that it left and who works on its folder.

    A job leaves a note when it starts, as if it had been killed. Where its process cannot be seen,
    on another machine or in a container of a batch system's, it counts as running as long as the
    run goes on.
    """
    if done:
        return "done"
    if note is None:
        return "to do"
    if note.kind != "killed":
        return "failed"
    seen = note.system == "local" and note.host == socket.gethostname()
    runs = failures.lives(note) or (not seen and run is not None)
    return "running" if runs else "failed"


def fallbacks(build: Path) -> dict[str, str]:
    """Return the pools that jobs go to which wait too long for their own, by their rules."""
    try:
        requests = read_requests(build)
        last = {rule: requests["rules"][rule][-1] for rule in requests["fallback_after"]}
        return {rule: str(attempt["pool"]) for rule, attempt in last.items()}
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return {}


def _jobs(table: TaskTable) -> list[TaskJob]:
    return [
        TaskJob(table.rule, key, table.scope, table.outputs, entry, table.stages)
        for key, entry in table.jobs.items()
    ]


def _rules_in_order(build: Path) -> Iterable[str]:
    """Return the rules in the order of the run, as far as it is known."""
    try:
        requests = read_requests(build)
        return [str(rule) for rule in requests["rules"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []
