"""A job's entry in its task table, and the folder in which its operations write."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fasthep_smk.storage import layout
from fasthep_smk.util import files
from fasthep_smk.util.errors import SmkError
from fasthep_smk.util.names import encode

__all__ = ["Job", "Sent", "goal_of", "staging"]


@dataclass(frozen=True)
class Sent:
    """How a job was sent out: at which attempt, with how many threads, asking for what.

    ``credentials`` are those that it requires.
    """

    attempt: int = 1
    threads: int = 1
    asked: dict[str, Any] = field(default_factory=dict)
    system: str = "local"
    batch_job: str | None = None
    warm: bool = False
    credentials: tuple[dict[str, Any], ...] = ()

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
class Job:
    """A job's entry in its task table, with the folders it works in.

    ``bundle`` is the key of the bundle that it runs in, ``marker`` that one's file.
    ``spares`` are event streams that are worth keeping if that costs little. ``siblings`` is how
    many jobs its rule has. ``sources`` are the files that its signature knows besides its inputs:
    by path their identity, size and modification time.
    """

    build: Path
    rule: str
    scope: str
    key: str
    entry: dict[str, Any]
    keeps: tuple[dict[str, Any], ...]
    outputs: tuple[str, ...]
    sent: Sent
    results: list[str] = field(default_factory=list)
    stages: tuple[str, ...] = ()
    made_of: dict[str, Any] = field(default_factory=dict)
    bundle: str | None = None
    marker: str | None = None
    spares: tuple[dict[str, Any], ...] = ()
    siblings: int = 1
    sources: dict[str, tuple[str | None, int, int]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where the job's products go."""
        return self.build / str(self.entry["folder"])

    @property
    def place(self) -> dict[str, Any]:
        """Where the job runs, as in its record."""
        return {"system": self.sent.place, "asked": self.sent.asked}

    @property
    def plan_file(self) -> Path:
        """The slim plan of the job's variation."""
        return self.build / str(self.entry["plan"])


@contextlib.contextmanager
def staging(job: Job) -> Iterator[Path]:
    """Yield a folder for what operations write; move the files into the build on success.

    A job that dies leaves no half-written skim or plot where a person would look for it. After a
    failure only FAST-HEP's diagnostics are kept.

    Raises:
        FileNotFoundError: somebody took this job for dead, and removed the folder.
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
        found = _files_in(folder)
        if not os.path.samestat(os.fstat(mine), folder.stat()):
            raise FileNotFoundError(f"{folder} was removed while the job worked in it")
        job.results.extend(_move(found, folder, job))
    except BaseException:
        with contextlib.suppress(OSError):  # there may be no space for them
            _move(_files_in(folder / "reports" / "diagnostics"), folder, job)
        raise
    finally:
        os.close(mine)
        shutil.rmtree(folder, ignore_errors=True)


def _files_in(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_symlink() or not path.is_dir()]


def _move(found: list[Path], source: Path, job: Job) -> list[str]:
    """Move what operations wrote below ``source`` into the build; return the paths relative to it.

    Content and names are on disk when this returns: the job's record will say that they are there.
    """
    goals = {path: str(goal_of(path.relative_to(source), job)) for path in found}
    for goal in goals.values():
        if not layout.is_result(goal):
            raise SmkError(f"an operation has written {goal!r}, where only runs write")
    files.sync_all(path for path in found if not path.is_symlink())
    for path, goal in goals.items():
        (job.build / goal).parent.mkdir(parents=True, exist_ok=True)
        files.replace(path, job.build / goal)
    files.sync_all({(job.build / goal).parent for goal in goals.values()})
    return list(goals.values())


def goal_of(path: Path, job: Job) -> Path:
    """Return where a file goes that an operation has written.

    Reports of variations go below the variation's own folder: FAST-HEP's observers write to the
    same place whatever the variation, and the plain place belongs to the nominal plan.
    """
    variation = str(job.entry["variation"])
    if variation == "nominal" or path.parts[0] != "reports" or path.parts[1:2] == (variation,):
        return path
    return Path("reports", variation, *path.parts[1:])
