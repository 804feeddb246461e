"""The files of a build folder by what they are for, and what they cost. Files are only looked at.

A file that has several names (hard links) counts once, and is only freed with its last name.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from fasthep_smk.storage import layout
from fasthep_smk.storage.jobs import TaskJob
from fasthep_smk.util import files
from fasthep_smk.util.ownership import is_own

#: ``results``: what FAST-HEP writes. ``superseded results``: of jobs that the last translation has
#: otherwise. ``environments``: packed ones, for jobs that travel. ``unfinished jobs``: of jobs that
#: run now or were killed. ``translation``: Snakefile, tables, plans.
Purpose = Literal[
    "results",
    "event streams",
    "other products",
    "superseded results",
    "environments",
    "unfinished jobs",
    "logs",
    "translation",
    "Snakemake's own",
]
#: In this order: a file with several names counts at the first kind.
KINDS: tuple[Purpose, ...] = get_args(Purpose)

#: Where files are written that are not complete at first.
_WRITTEN = ("smk/", "artifacts/", "compile/", "graph/", "render/", "reports/")
#: What is in a folder, if it is in no folder before; results are everywhere else.
_PLACES: dict[str, Purpose] = {
    ".snakemake/": "Snakemake's own",
    "debug/": "logs",
    f"{layout.ARCHIVES}/": "environments",
    f"{layout.OLD}/": "superseded results",
    f"{layout.STAGE}/": "unfinished jobs",
    f"{layout.DEPOT}/": "unfinished jobs",
    f"{layout.SMK}/": "translation",
}


@dataclass(frozen=True, slots=True)
class File:
    """A file: its path relative to the build, its size in bytes, its inode and names of it."""

    path: str
    size: int
    inode: tuple[int, int]
    links: int = 1

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Amount:
    """A number of files and their size in bytes."""

    files: int = 0
    size: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.files + other.files, self.size + other.size)


@dataclass(frozen=True)
class Survey:
    """The files of a build folder by kind, and its jobs by their folders.

    ``done`` are the folders of finished jobs, ``environment`` is what jobs are sent, if they are.
    """

    build: Path
    jobs: Mapping[str, TaskJob]
    done: frozenset[str]
    files: Mapping[Purpose, list[File]] = field(default_factory=dict)
    environment: str | None = None

    def of(self, *kinds: Purpose) -> list[File]:
        """Return the files of these kinds."""
        return [file for kind in kinds for file in self.files.get(kind, [])]

    @property
    def complete(self) -> bool:
        """Whether all jobs are done."""
        return bool(self.jobs) and self.done.issuperset(self.jobs)

    @cached_property
    def usage(self) -> dict[Purpose, Amount]:
        """What each kind takes; the sum is what all take together."""
        seen: set[tuple[int, int]] = set()
        return {kind: amount(self.of(kind), seen) for kind in KINDS}

    @property
    def total(self) -> Amount:
        return sum(self.usage.values(), Amount())


def survey(build: Path, jobs: Iterable[TaskJob], *, done: Iterable[str] | None = None) -> Survey:
    """Look at all files of a build folder.

    ``done`` are the folders of finished jobs; all that have a record if it is not given, which is
    right after a run.
    """
    by_folder = {job.folder: job for job in jobs}
    files = list(_walk(build))
    recorded = {file.folder for file in files if file.name == layout.RECORD}
    finished = frozenset(by_folder.keys() & (recorded if done is None else set(done)))
    usage = Survey(build, by_folder, finished, {kind: [] for kind in KINDS}, _environment_of(build))
    for file in files:
        usage.files[_kind(file, usage, recorded)].append(file)
    return usage


def amount(files: Iterable[File], seen: set[tuple[int, int]] | None = None) -> Amount:
    """Return what files take, without those ``seen``, to which they are added."""
    seen = set() if seen is None else seen
    new = [file for file in files if file.inode not in seen]
    size = sum({file.inode: file.size for file in new}.values())
    seen.update(file.inode for file in new)
    return Amount(len(new), size)


def freed_by(parts: Mapping[str, Iterable[File]]) -> dict[str, Amount]:
    """Return for each part how many files are deleted with it, and what that frees.

    The content of a file stays until the last of its names goes.
    """
    names: Counter[tuple[int, int]] = Counter()
    amounts: dict[str, Amount] = {}
    for part, listed in parts.items():
        sizes = []
        for file in listed:
            names[file.inode] += 1
            sizes.append(file.size if names[file.inode] == file.links else 0)
        amounts[part] = Amount(len(sizes), sum(sizes))
    return amounts


def _environment_of(build: Path) -> str | None:
    """Return the packed environment that the last run's jobs were sent, if they were sent one."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        return str(json.loads((build / layout.TRANSFER).read_text(encoding="utf-8"))["python"])
    return None


def _walk(build: Path) -> Iterator[File]:
    """Yield all files below a folder. What vanishes meanwhile, or may not be read, is left out."""
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(build / folder) as entries:
                listed = list(entries)
        except OSError:
            continue
        for entry in listed:
            path = f"{folder}/{entry.name}" if folder else entry.name
            try:
                if entry.is_dir(follow_symlinks=False) or _is_followed(path, entry):
                    folders.append(path)
                    continue
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            yield File(path, status.st_size, (status.st_dev, status.st_ino), status.st_nlink)


def is_reached(build: Path, folder: str) -> bool:
    """Whether a folder of a build folder lies there, and not behind a link to elsewhere."""
    parts = folder.split("/")
    places = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return all(
        not (build / place).is_symlink() or _is_followed(place, build / place) for place in places
    )


def _is_followed(path: str, entry: os.DirEntry[str] | Path) -> bool:
    """Whether this is our folder, which the user has put on another disk with a link here.

    A link that came with a copy of somebody else's leads anywhere: what is there has to be ours.
    """
    return path == layout.SMK and Path(entry, "plans").is_dir() and is_own(entry)


def _kind(file: File, usage: Survey, recorded: set[str]) -> Purpose:
    if file.path.startswith(_WRITTEN) and files.TEMPORARY.fullmatch(file.name):
        return "unfinished jobs"
    if file.path.startswith(f"{layout.WORK}/"):
        return _kind_of_intermediate(file, usage, recorded)
    kinds = (kind for place, kind in _PLACES.items() if file.path.startswith(place))
    return next(kinds, "results")


def _kind_of_intermediate(file: File, usage: Survey, recorded: set[str]) -> Purpose:
    if file.folder not in recorded or file.folder.rpartition("/")[2].startswith("."):
        return "unfinished jobs"
    if file.folder in usage.jobs and file.folder not in usage.done:
        return "superseded results"
    # A job of no table is one of another variation, if only one was translated.
    return "event streams" if file.name.endswith(".arrow") else "other products"
