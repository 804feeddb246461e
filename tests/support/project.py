"""The analysis that is edited in tests: its folder, runs of it, and finished copies of it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from . import events, warm

__all__ = ["Project", "make_project", "once", "shared_base"]

SOURCES = Path(__file__).parents[1] / "workflows" / "edits"

#: Input files: events, and seed.
FILES = {"data_0": (100, 1), "dy_0": (140, 2), "dy_1": (80, 3), "ttbar_0": (60, 4)}


@dataclass(frozen=True)
class Project:
    """A folder with an analysis, which of its workflows is run, and with which options."""

    folder: Path
    workflow: str = "workflow.yaml"
    options: tuple[str, ...] = ()
    outdir: str = "build"

    @property
    def build(self) -> Path:
        return self.folder / self.outdir

    def copy(self, folder: Path) -> Project:
        """Return the same project in another folder, with everything that lies in it."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return replace(self, folder=folder)

    def run(self, *more: str) -> str:
        """Run the workflow; return all that was printed."""
        return self._call(self.workflow, "-j", "2", *more)

    def dry_run(self) -> str:
        """Return what ``-n`` prints."""
        return self._call(self.workflow, "-n")

    def translate(self) -> str:
        return self._call("translate", self.workflow)

    def plain_dry_run(self) -> str:
        """Return what Snakemake itself says it would run of a translation."""
        self.translate()
        command = [sys.executable, "-m", "snakemake", "--profile", str(self.build / "smk/profile")]
        return _printed([*command, "--dry-run"], self.folder)

    def _call(self, *arguments: str) -> str:
        where = ("--outdir", self.outdir)
        done = warm.run(*arguments, *where, *self.options, cwd=self.folder)
        assert done.returncode == 0, f"{arguments}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
        return done.stdout + done.stderr


def _printed(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return done.stdout + done.stderr


def make_project(folder: Path, workflow: str = "workflow.yaml") -> Project:
    """Lay out the analysis below ``folder``: workflows, modules and events; nothing is run."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCES, folder, ignore=ignored)
    for name, (number, seed) in FILES.items():
        is_data = name.startswith("data")
        events.zmumu_file(folder / f"data/{name}.root", number, seed, is_data=is_data)
    return Project(folder, workflow)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def shared_base(factory: pytest.TempPathFactory) -> Path:
    """Return the folder for temporary files of this run of pytest, with all its processes."""
    base = factory.getbasetemp()
    return base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base


def once(folder: Path, make: Callable[[Path], object]) -> Path:
    """Return ``folder``, made by the first test that asks; other processes wait for it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    done = folder.with_name(f"{folder.name}.done")
    with _alone(folder.with_name(f"{folder.name}.lock")):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            make(folder)
            done.touch()
    return folder
