"""What lies in a build folder: its jobs as last translated, and which of them are done.

Only files are read: nothing is compiled, and neither FAST-HEP nor Snakemake is imported.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from fasthep_smk.storage import failures, layout
from fasthep_smk.storage.job_settings import read_requests
from fasthep_smk.storage.record import Asked, Used
from fasthep_smk.storage.task_table import JobEntry, TaskTable, UnreadableTable
from fasthep_smk.util import files
from fasthep_smk.util.errors import Findings, WrongArgument, nearest
from fasthep_smk.util.shapes import ready

if TYPE_CHECKING:
    from fasthep_smk.storage.run_lock import Holder

State = Literal["done", "running", "failed", "to do"]
STATES: tuple[State, ...] = ("done", "running", "failed", "to do")

_WAITED_FOR = re.compile(r'^ "waited_for": "([^"]*)"', re.MULTILINE)
_SIGNATURE = re.compile(r'^ "signature": "([^"]*)"', re.MULTILINE)
#: What stands in a record behind what is said of how the job ran.
_AFTER_HEAD = '\n "results": '
_ADOPTED = '\n "adopted": ['
#: Bytes of a record in which its signature stands: what was recorded of the run comes later.
_HEAD = 4096


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
        WrongArgument: it is not one; the message names the nearest that is.
    """
    build = folder.absolute()
    if _is_build(build):
        return build
    near = _nearest_build(build)
    if not build.exists():
        problem = "there is no such folder"
    elif build.is_dir():
        problem = "is not a build folder of fasthep-smk"
    else:
        problem = "is a file, not a build folder"
    raise WrongArgument.one(
        problem,
        key="BUILD",
        value=str(folder),
        expected="a folder that 'fasthep-smk workflow.yaml' has written to (it holds smk/tasks)",
        hint=f"did you mean {_shown(near, folder)}?" if near else None,
    )


def read_jobs(build: Path) -> list[TaskJob]:
    """Return the jobs of a build folder as last translated, in the order of the run.

    Raises:
        Findings: a task table cannot be read.
    """
    tables: dict[str, list[TaskJob]] = {}
    unread: list[tuple[Path, Exception]] = []
    for path in sorted((build / layout.TASKS).glob("*.json")):
        try:
            tables[path.stem] = _jobs(TaskTable.read(build, path.stem))
        except FileNotFoundError:
            continue  # a run that begins has just removed it
        except (OSError, UnreadableTable) as error:
            unread.append((path, error))
    if len(unread) == 1:
        ((table, problem),) = unread
        raise Findings.one(f"this task table cannot be read: {problem}", file=str(table))
    if unread:  # by a run of another version, for instance: it would be the same for each
        message = f"{len(unread)} task tables cannot be read; the first: {unread[0][1]}"
        raise Findings.one(message, file=str(build / layout.TASKS))
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


def is_done(build: Path, job: TaskJob) -> bool:
    """Whether a job has its record, of what the job is now."""
    match = _SIGNATURE.search(_head(build, job))
    return match is not None and match[1] == job.entry.signature


def state_of(done: bool, note: failures.Failure | None, run: Holder | None) -> State:
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


class Head(msgspec.Struct):
    """What a record says of how its job ran, and whether it has ``adopted`` what it made."""

    signature: str
    started: float
    ended: float
    asked: Asked
    used: Used
    earlier: list[dict[str, object]] = []
    host: str = ""
    threads: int = 1
    submitted: float | None = None
    events: int | None = None
    batch_job: str | None = None
    observed: tuple[str, ...] = ()
    adopted: bool = False


def head_of(build: Path, job: TaskJob) -> Head | None:
    """Return the head of the record of a finished job: all before its ``results``.

    The rest is much longer, and only searched for whether a part is adopted. ``None`` if the job,
    as it is now, is not done, or its record is damaged.
    """
    try:
        text = files.read_plain(build / job.folder / layout.RECORD).decode()
        head, cut, rest = text.partition(_AFTER_HEAD)
        content = json.loads(f"{head.removesuffix(',')}}}" if cut else text)
        record = msgspec.convert(content, ready(Head))
    except (OSError, ValueError, RecursionError, msgspec.ValidationError):
        return None
    record.adopted = _ADOPTED in rest
    return record if record.signature == job.entry.signature else None


def waited_for(build: Path, job: TaskJob) -> str | None:
    """Return the pool that a finished job has waited for in vain: it ran in its fallback."""
    match = _WAITED_FOR.search(_head(build, job))
    return match[1] if match else None


def fallbacks(build: Path) -> dict[str, str]:
    """Return the pools that jobs go to which wait too long for their own, by their rules."""
    try:
        requests = read_requests(build)
        last = {rule: requests["rules"][rule][-1] for rule in requests["fallback_after"]}
        return {rule: str(attempt["pool"]) for rule, attempt in last.items()}
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return {}


def _head(build: Path, job: TaskJob) -> str:
    """Return the first lines of a job's record."""
    try:
        with (build / job.folder / layout.RECORD).open(encoding="utf-8") as record:
            return record.read(_HEAD)
    except (OSError, ValueError):
        return ""


def _is_build(folder: Path) -> bool:
    return (folder / layout.TASKS).is_dir() or (folder / layout.LOCK).is_file()


def _nearest_build(folder: Path) -> Path | None:
    """Return a build folder in, around or beside what is none."""
    for place in (folder / "build", *folder.parents[:3], folder.parent / "build"):
        if _is_build(place):
            return place
    try:
        builds = {path.name: path for path in folder.parent.iterdir() if _is_build(path)}
    except OSError:
        return None
    close = nearest(folder.name, builds)
    return builds[close] if close else None


def _shown(path: Path, given: Path) -> str:
    """Return a path as the user would write it: relative if the given one was."""
    if not given.is_absolute() and path.is_relative_to(Path.cwd()):
        return repr(str(path.relative_to(Path.cwd())))
    return repr(str(path))


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
