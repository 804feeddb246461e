"""Finished jobs on disk: those of the present translation, and superseded ones.

A job is done if its folder in ``smk/work`` holds a record. When another translation wants
something else there, the folder goes to ``smk/old/<signature>``, and comes back when that
signature is wanted again: an edit that is undone costs nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from fasthep_smk import files, layout, products
from fasthep_smk.plan.rules import Job
from fasthep_smk.products import RECORD

__all__ = ["Record", "Store"]

Record = dict[str, Any]

#: Where a superseded job's files for the user go, in its folder.
_RESULTS = "results"


class Store:
    """The finished jobs of a build folder."""

    def __init__(self, build: Path) -> None:
        self.build = build

    def record(self, job: Job) -> Record | None:
        """Return the record in a job's folder, ``None`` if it cannot be read."""
        return read(self.build / job.folder)

    @cached_property
    def superseded(self) -> list[tuple[Path, Record]]:
        """The folders that were put away with their records, the oldest first."""
        found = []
        for folder in (self.build / layout.OLD).glob("*"):
            record = read(folder)
            if record is not None:
                found.append((folder, record))
        return sorted(found, key=lambda item: float(item[1].get("ended") or 0))

    def latest(self, job: Job) -> Record | None:
        """Return the last record of a job that was put away."""
        return self._latest.get((job.rule, job.key))

    @cached_property
    def _latest(self) -> dict[tuple[str, str], Record]:
        return {(record["rule"], record["key"]): record for _, record in self.superseded}

    def put_away(self, folder: Path) -> None:
        """Take a folder out of ``smk/work``; without a record it is of no use and goes."""
        record = read(folder)
        if record is None:
            shutil.rmtree(folder, ignore_errors=True)
            return
        goal = self.build / layout.OLD / str(record["signature"])
        goal.parent.mkdir(parents=True, exist_ok=True)
        _replace(folder, goal)
        os.utime(goal)  # who makes room takes what was put away first
        self._forget()

    def bring_back(self, job: Job) -> Record | None:
        """Put what was made earlier with a job's signature in its place again, if it stands."""
        kept = self.build / layout.OLD / job.signature
        record = read(kept)
        if record is None or (record["rule"], record["key"]) != (job.rule, job.key):
            return None
        _move_results(record, kept / _RESULTS, self.build)
        if record["signature"] != job.signature or not self.results_stand(record):
            return None
        goal = self.build / job.folder
        goal.parent.mkdir(parents=True, exist_ok=True)
        _replace(kept, goal)
        self._forget()
        return record

    def retire(self, claimed: Collection[str]) -> list[str]:
        """Put files for the user away that only superseded jobs made; return their names.

        A plot of a stage that was removed must not lie among those that are right. A file that
        somebody has changed since is left alone.
        """
        retired = []
        for folder, record in self.superseded:
            mine = {name: one for name, one in record["results"].items() if name not in claimed}
            retired += _move_results({"results": mine}, self.build, folder / _RESULTS)
        return retired

    def results_stand(self, record: Record) -> bool:
        """Tell whether the files that a job made for the user are still as it left them."""
        for name, known in record["results"].items():
            path = self.build / name
            with contextlib.suppress(OSError):
                if path.stat().st_size == known["size"] and files.described(path) == known:
                    continue
            return False
        return True

    def lost_results(self, record: Record) -> list[str]:
        """Return the files that a job made for the user and somebody has deleted."""
        return [name for name in record["results"] if not (self.build / name).exists()]

    def folders(self) -> Iterator[Path]:
        """Yield the folders below ``smk/work`` that hold a record."""
        for folder, _, names in os.walk(self.build / layout.WORK):
            if RECORD in names:
                yield Path(folder)

    def _forget(self) -> None:
        self.__dict__.pop("superseded", None)
        self.__dict__.pop("_latest", None)


def _move_results(record: Record, source: Path, goal: Path) -> list[str]:
    """Move a job's files for the user, those that are as it left them; return their names."""
    moved = []
    for name, known in record["results"].items():
        path = source / name
        if (goal / name).exists() or not path.is_file() or files.described(path) != known:
            continue
        (goal / name).parent.mkdir(parents=True, exist_ok=True)
        path.rename(goal / name)
        moved.append(name)
        with contextlib.suppress(OSError):  # folders that are empty now
            for parent in path.parents[: len(Path(name).parents) - 1]:
                parent.rmdir()
    return moved


def read(folder: Path) -> Record | None:
    """Return the record of a finished job; ``None`` if there is none that can be used."""
    try:
        return products.read_record(folder)
    except products.Damaged:
        return None


def _replace(source: Path, goal: Path) -> None:
    """Rename a folder, in the place of an earlier one."""
    if goal.exists():
        gone = goal.with_name(f".{goal.name}.gone")
        shutil.rmtree(gone, ignore_errors=True)
        goal.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
    source.rename(goal)
