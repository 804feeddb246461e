"""Finished jobs on disk: those of the present translation, and superseded ones.

A job is done if its folder in ``smk/work`` holds a record. When another translation wants
something else there, the folder goes to ``smk/old/<signature>``, and comes back when that
signature is wanted again: an edit that is undone costs nothing. Results of one signature whose jobs
have read different files lie side by side.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path

from fasthep_smk.plan.rules import Job, Rule
from fasthep_smk.storage import layout
from fasthep_smk.storage.damage import difference, said
from fasthep_smk.storage.layout import RECORD
from fasthep_smk.storage.record import Damaged, Record, read_record
from fasthep_smk.util import files
from fasthep_smk.util.files import FileFacts

#: Where a superseded job's files for the user go, in its folder.
_RESULTS = "results"
#: Where those go that were not as the job had left them.
_EDITED = "edited"
#: This many jobs of a rule are enough to know how long the others will take.
_SAMPLE = 25


class JobStore:
    """The finished jobs of a build folder."""

    def __init__(self, build: Path) -> None:
        self.build = build

    def record(self, job: Job) -> Record | None:
        """Return the record in a job's folder, ``None`` if it cannot be read."""
        return read(self.build / job.folder)

    @cached_property
    def superseded(self) -> list[tuple[Path, Record]]:
        """The folders that were archived with their records, the oldest first.

        To be asked for when nothing more is archived or restored.
        """
        archived = []
        for folder in (self.build / layout.OLD).glob("*"):
            record = read(folder)
            if record is not None:
                archived.append((folder, record))
        return sorted(archived, key=lambda item: float(item[1].get("ended") or 0))

    def latest(self, job: Job) -> Record | None:
        """Return the last record of a job that was archived."""
        return self._latest.get((job.rule, job.key))

    @cached_property
    def _latest(self) -> dict[tuple[str, str], Record]:
        return {(record["rule"], record["key"]): record for _, record in self.superseded}

    def archive(self, folder: Path, damaged: Iterable[str] = ()) -> Path | None:
        """Take a folder out of ``smk/work``; return where it is now.

        Without a record it is of no use and goes. With it goes what lies in the place of
        ``damaged`` results: a user may have edited them.
        """
        record = read(folder)
        if record is None:
            shutil.rmtree(folder, ignore_errors=True)
            return None
        goal = self.build / layout.OLD / _archive_name(record)
        goal.parent.mkdir(parents=True, exist_ok=True)
        _replace(folder, goal)
        for name in damaged:
            _set_aside(self.build, name, goal / _EDITED)
        os.utime(goal)  # who makes room takes what was archived first
        names = self._archived.setdefault(str(record["signature"]), [])
        if goal.name not in names:
            names.append(goal.name)
        return goal

    def restore(self, job: Job, is_valid: Callable[[Record], bool]) -> Record | None:
        """Put what was made earlier with a job's signature in its place again, if it is valid."""
        for name in self._archived.get(job.signature, ()):
            kept = self.build / layout.OLD / name
            record = read(kept)
            if record is None or (record["rule"], record["key"]) != (job.rule, job.key):
                continue
            if is_valid(record) and self._restore(job, kept, record):
                return record
        return None

    def _restore(self, job: Job, kept: Path, record: Record) -> bool:
        _move_results(record["results"], kept / _RESULTS, self.build)
        if record["signature"] != job.signature or not self.results_are_valid(record):
            return False
        goal = self.build / job.folder
        goal.parent.mkdir(parents=True, exist_ok=True)
        _replace(kept, goal)
        return True

    def archive_results(self, claimed: Collection[str]) -> list[str]:
        """Put files for the user away that only superseded jobs made; return their names.

        A plot of a stage that was removed must not lie among those that are right. A file that
        was changed since is left alone.
        """
        archived = []
        for folder, record in self.superseded:
            mine = {name: facts for name, facts in record["results"].items() if name not in claimed}
            archived += _move_results(mine, self.build, folder / _RESULTS)
        return archived

    def results_are_valid(self, record: Record, *, content: bool = True) -> bool:
        """Whether the files that a job made for the user are as it left them, or as long."""
        return not any(
            difference(self.build / name, facts, content=content)
            for name, facts in record["results"].items()
        )

    def damage(self, record: Record) -> str | None:
        """Return what was wrong with the results of a job that was archived because of that."""
        kept = self.build / layout.OLD / _archive_name(record)
        for name, facts in record["results"].items():
            aside = (kept / _EDITED / name).exists()
            place = kept / _EDITED if aside else self.build
            if how := difference(place / name, facts, content=aside):
                return said({name: how})
        return None

    def folders(self) -> Iterator[Path]:
        """Yield the folders below ``smk/work`` that hold a record."""
        for folder, _, names in os.walk(self.build / layout.WORK):
            if RECORD in names:
                yield Path(folder)

    @cached_property
    def _archived(self) -> dict[str, list[str]]:
        """The names of archived folders by their signature."""
        by_signature: dict[str, list[str]] = {}
        for path in (self.build / layout.OLD).glob("*"):
            by_signature.setdefault(path.name.partition("-")[0], []).append(path.name)
        return by_signature


def _move_results(results: Mapping[str, FileFacts], source: Path, goal: Path) -> list[str]:
    """Move a job's files for the user, those that are as it left them; return their names."""
    moved = []
    for name, facts in results.items():
        path = source / name
        if (goal / name).exists() or not path.is_file() or files.described(path) != facts:
            continue
        (goal / name).parent.mkdir(parents=True, exist_ok=True)
        path.rename(goal / name)
        moved.append(name)
        with contextlib.suppress(OSError):  # folders that are empty now
            for parent in path.parents[: len(Path(name).parents) - 1]:
                parent.rmdir()
    return moved


def _set_aside(build: Path, name: str, goal: Path) -> None:
    """Move away what lies in a file's place: a file, a link, a folder, or a file above it."""
    for part in (*reversed(Path(name).parents), Path(name)):
        path = build / part
        if path.is_dir() and part != Path(name):
            continue
        if os.path.lexists(path):
            (goal / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(path, goal / part)
        return


def read(folder: Path) -> Record | None:
    """Return the record of a finished job; ``None`` if there is none that can be used."""
    try:
        return read_record(folder)
    except Damaged:
        return None


def _archive_name(record: Record) -> str:
    """Return the name of an archived folder: what the job has read is a part of it."""
    observed = record.get("observed")
    return f"{record['signature']}{f'-{files.digest_of(observed)[:16]}' if observed else ''}"


def _replace(source: Path, goal: Path) -> None:
    """Rename a folder, in the place of an earlier one."""
    if goal.exists():
        gone = goal.with_name(f".{goal.name}.gone")
        shutil.rmtree(gone, ignore_errors=True)
        goal.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
    source.rename(goal)


def seconds(rule: Rule, build: Path) -> list[float]:
    """Return the seconds that some finished jobs of a rule took; read only."""
    return [
        float(record["ended"]) - float(record["started"])
        for job in islice(rule.jobs.values(), _SAMPLE)
        if (record := read(build / job.folder)) is not None
    ]
