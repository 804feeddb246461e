"""A job's entry in its task table, and the folder in which its operations write."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fasthep_smk.names import encode

__all__ = ["Job", "staging"]


@dataclass(frozen=True)
class Job:
    """A job's entry in its task table, with the folders it works in."""

    build: Path
    rule: str
    scope: str
    key: str
    entry: dict[str, Any]
    keeps: tuple[dict[str, Any], ...]
    outputs: tuple[str, ...]
    results: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """Where the job's products go."""
        return self.build / str(self.entry["folder"])

    @property
    def plan_file(self) -> Path:
        """The slim plan of the job's variation."""
        return self.build / str(self.entry["plan"])


@contextmanager
def staging(job: Job) -> Iterator[Path]:
    """Yield a folder for what operations write; move the files into the build on success.

    A job that dies leaves no half-written skim or plot where a person would look for it. After a
    failure only FAST-HEP's diagnostics are kept.
    """
    parent = job.build / "smk" / "stage" / job.rule
    name = encode(job.key or job.rule)
    for stale in parent.glob(f"{name}.*"):  # of a job that was killed
        shutil.rmtree(stale, ignore_errors=True)
    folder = parent / f"{name}.{os.getpid()}"
    folder.mkdir(parents=True)
    try:
        yield folder
        job.results.extend(_move_files(folder, job))
    except BaseException:
        _move_files(folder, job, below="reports/diagnostics")
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _move_files(source: Path, job: Job, *, below: str = "") -> list[str]:
    """Move what operations wrote into the build; return the paths relative to it."""
    moved: list[str] = []
    for path in sorted((source / below).rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        goal = _goal(path.relative_to(source), job)
        (job.build / goal).parent.mkdir(parents=True, exist_ok=True)
        path.replace(job.build / goal)
        moved.append(str(goal))
    return moved


def _goal(path: Path, job: Job) -> Path:
    """Return where a file goes: reports of variations go below the variation's own folder.

    FAST-HEP's observers write to the same place whatever the variation; the plain place belongs
    to the nominal plan.
    """
    variation = str(job.entry["variation"])
    if variation == "nominal" or path.parts[0] != "reports" or path.parts[1:2] == (variation,):
        return path
    return Path("reports", variation, *path.parts[1:])
