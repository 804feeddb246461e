"""A job of a task table on its worker, and the folder in which its operations write."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.flow.shapes import Key
from fasthep_smk.storage import layout, pickles
from fasthep_smk.storage.record import Asked, MadeOf, PoolCount, made_of
from fasthep_smk.storage.task_table import JobEntry, Kept, TaskTable
from fasthep_smk.util import files
from fasthep_smk.util.errors import SmkError
from fasthep_smk.util.names import encode

if TYPE_CHECKING:
    from fasthep_smk.config.credentials import RequirementData
    from fasthep_smk.storage.job_settings import Launch


@dataclass(frozen=True)
class Sent:
    """How a job was sent out: at which attempt, with how many threads, asking for what.

    ``credentials`` are those that it requires, ``waited_for`` the pool that did not come in time.
    ``in_pilot``: its batch job is not its own.
    ``submitted`` is when it was, in seconds since 1970 (UTC), where it was.
    """

    attempt: int = 1
    threads: int = 1
    asked: Asked = field(default_factory=Asked)
    system: str = "local"
    batch_job: str | None = None
    warm: bool = False
    credentials: tuple[RequirementData, ...] = ()
    waited_for: str | None = None
    in_pilot: bool = False
    submitted: float | None = None

    @property
    def place(self) -> str:
        """The batch system that the job runs on; what ends a run may stay on this machine."""
        return "local" if self.batch_job is None else self.system

    @property
    def walltime(self) -> int | None:
        """The job's time limit in seconds."""
        value = self.asked.get("walltime")
        return None if value is None else int(value)


@dataclass(frozen=True)
class WorkerJob:
    """One job of a task table: its key, how it was sent out, and what it has made so far.

    ``results`` are files for the user, by their paths in the build folder, ``outside`` the stamps
    of those elsewhere, by node and path. ``bundle`` is the key of the bundle that it runs in,
    ``marker`` that one's file.
    """

    build: Path
    table: TaskTable
    key: str
    sent: Sent
    results: list[str] = field(default_factory=list)
    outside: dict[str, dict[str, str]] = field(default_factory=dict)
    bundle: str | None = None
    marker: str | None = None

    @cached_property
    def launch(self) -> Launch:
        """Where the run was started, and what of the user's own runs in jobs."""
        launch: Launch = json.loads((self.build / layout.RUN).read_text(encoding="utf-8"))
        return launch

    @property
    def rule(self) -> str:
        return self.table.rule

    @property
    def entry(self) -> JobEntry:
        return self.table.jobs[self.key]

    @property
    def cached(self) -> Sequence[Kept]:
        """Event streams that are worth keeping if that costs little."""
        return self.table.cached.get(self.entry.signed_as, ())

    @property
    def kept(self) -> set[Key]:
        """The products that outlive the job."""
        return {kept.key for kept in (*self.table.keeps, *self.cached)}

    @property
    def folder(self) -> Path:
        """Where the job's products go."""
        return self.build / self.entry.folder

    @property
    def record(self) -> Path:
        """The job's record: written last."""
        return self.build / self.entry.record

    @property
    def is_done(self) -> bool:
        """Whether its record is there: Snakemake removes it when a job is to run again."""
        try:
            record = files.unseal(files.read_plain(self.record))
        except (OSError, files.Altered):
            return False
        return bool(record.get("signature") == self.entry.signature)

    @property
    def place(self) -> PoolCount:
        """Where the job runs, as records say it of many."""
        return {
            "system": self.sent.place,
            "pool": str(self.sent.asked.get("pool") or ""),
            "jobs": 1,
        }

    @property
    def plan_file(self) -> Path:
        """The slim plan of the job's variation."""
        return self.build / self.entry.plan

    @property
    def made_of(self) -> MadeOf:
        """What its products follow from: its nodes' signatures, and their origin."""
        nodes = self.table.nodes.get(self.entry.signed_as, {})
        return made_of(self.entry.nodes, self.entry.reads, nodes, self.entry.origin)


@contextlib.contextmanager
def staging(job: WorkerJob) -> Iterator[Path]:
    """Yield a folder for what operations write; move the files into the build on success.

    A job that dies leaves no half-written skim or plot where a person would look for it. After a
    failure only FAST-HEP's diagnostics are kept.

    Raises:
        FileNotFoundError: another process took this job for dead, and removed the folder.
    """
    parent = job.build / "smk" / "stage" / job.rule
    name = encode(job.key or job.rule)
    for stale in parent.glob(f"{name}.*"):  # of a job that was killed
        files.discard(stale)
    folder = parent / f"{name}.{os.getpid()}"
    folder.mkdir(parents=True)
    mine = os.open(folder, os.O_RDONLY)
    try:
        yield folder
        paths = _files_in(folder)
        if not os.path.samestat(os.fstat(mine), folder.stat()):
            raise FileNotFoundError(f"{folder} was removed while the job worked in it")
        job.results.extend(_move(paths, folder, job))
    except BaseException:
        with contextlib.suppress(OSError):  # there may be no space for them
            _move(_files_in(folder / "reports" / "diagnostics"), folder, job)
        raise
    finally:
        os.close(mine)
        shutil.rmtree(folder, ignore_errors=True)


def _files_in(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_symlink() or not path.is_dir()]


def _move(paths: list[Path], source: Path, job: WorkerJob) -> list[str]:
    """Move what operations wrote below ``source`` into the build; return the paths relative to it.

    Content and names are on disk when this returns: the job's record will say that they are there.
    """
    goals = {path: str(goal_of(path.relative_to(source), job)) for path in paths}
    for path, goal in goals.items():
        if not layout.is_result(goal):
            raise SmkError(f"an operation has written {goal!r}, where only the run may write")
        if layout.is_histogram(goal):
            pickles.sent(path, file=goal)
    files.sync_all(path for path in paths if not path.is_symlink())
    for path, goal in goals.items():
        (job.build / goal).parent.mkdir(parents=True, exist_ok=True)
        files.replace(path, job.build / goal)
    files.sync_all({(job.build / goal).parent for goal in goals.values()})
    return list(goals.values())


def goal_of(path: Path, job: WorkerJob) -> Path:
    """Return where a file goes that an operation has written.

    Reports of variations go below the variation's own folder: FAST-HEP's observers write to the
    same place whatever the variation, and the plain place belongs to the nominal plan.
    """
    variation = job.entry.variation
    if variation == "nominal" or path.parts[0] != "reports" or path.parts[1:2] == (variation,):
        return path
    return Path("reports", variation, *path.parts[1:])
