"""What a job may send back: what itself makes, and nothing else of the build folder.

The submit machine believes its own translation only. A worker may run other code than it was sent,
or be somebody else's: it can give this job wrong results, but touch nothing besides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.storage import failures, layout, observed, pickles, products
from fasthep_smk.storage.task_table import JobEntry
from fasthep_smk.transfer.archive import DamagedParcel
from fasthep_smk.transfer.job_files import read_table
from fasthep_smk.util import files

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

    from fasthep_smk.storage.job_settings import Launch

_ATTEMPT = re.compile(r"\.attempt[0-9]{1,6}\.log")
_OBSERVED = re.compile(re.escape(f"{layout.OBSERVED}/") + r"[0-9a-f]{32}\.json")


class Expected:
    """What a job, or a bundle of jobs, may send back; by its rule and wildcards' values."""

    def __init__(
        self, build: Path, rule: str, place: Iterable[str], *, probe: bool = False
    ) -> None:
        """Read it from the job's task table; a ``probe`` of the doctor's has none.

        Raises:
            KeyError: there is no such job.
            OSError, UnreadableTable: there is no such table.
        """
        self._build = build
        self._rule = rule
        self._place = tuple(place)
        self._jobs: Mapping[str, JobEntry] = {}
        self._marker: str | None = None
        if not probe:
            key = "/".join(self._place)
            table = read_table(build, rule, key)
            self._jobs = table.jobs
            self._marker = table.bundles[key].marker if table.bundles else None
        self._by_folder = {entry.folder: key for key, entry in self._jobs.items()}

    def may_hold(self, name: str) -> bool:
        """Whether the job may write a file, by its path relative to the build folder."""
        if name.startswith(f"{layout.WORK}/"):
            return name.rpartition("/")[0] in self._by_folder
        if name.startswith(f"{layout.LOGS}/"):
            return name in self._logs or _ATTEMPT.sub(".log", name) in self._logs
        if name in self._single or _OBSERVED.fullmatch(name):
            return True
        is_anywhere = name.partition("/")[0] in layout.OF_FASTHEP or not self._holds_project
        return is_anywhere and layout.is_result(name)

    def may_remove(self, name: str) -> bool:
        """Whether the job may find that a file of another job is damaged."""
        return name in self._read

    def check(self, folder: Path, names: Iterable[str]) -> None:
        """Check what has arrived in a folder, by names that the job may send.

        Raises:
            Damaged: a file is not what its name says, or speaks of another job.
        """
        names = list(names)
        present = {*names, *self._given}
        for name in names:
            problem = self._problem(folder / name, name, present)
            if problem is not None:
                raise DamagedParcel(f"{name!r} {problem}")

    def _problem(self, path: Path, name: str, present: set[str]) -> str | None:
        try:
            if layout.is_record(name):
                key = self._by_folder[name.rpartition("/")[0]]
                return self._problem_of_record(path, key, present)
            if name in self._notes:
                return self._problem_of_note(path, self._notes[name])
            if _OBSERVED.fullmatch(name):
                return None if observed.is_of(path) else "differs from the checksum in its name"
            if name.endswith(f"/{layout.ARCHIVE}"):
                pickles.check_archive(path, self._listed)
            elif layout.is_histogram(name):
                pickles.check(files.read_plain(path, pickles.LARGEST + 1), self._listed)
        except pickles.RefusedPickle as error:
            return f"holds a pickle that must not be sent: {failures.one_line(error)}"
        except (ValueError, RecursionError, products.Damaged) as error:
            return f"cannot be read: {failures.one_line(error)}"
        return None

    def _problem_of_record(self, path: Path, key: str, present: set[str]) -> str | None:
        record = products.read_record(path.parent)
        error = next(_record_schema().iter_errors(record), None)
        if error is not None:
            where = "/".join(map(str, error.absolute_path))
            return f"is not a record: {where}: {failures.one_line(error)}"
        mine = (self._rule, key, self._jobs[key].signature)
        if (record["rule"], record["key"], record["signature"]) != mine:
            return "is the record of another job, or of another version of this one"
        # What a failed job leaves for the user are diagnostics, of which no record tells.
        missing = record["results"].keys() - present
        return f"refers to {min(missing)!r}, which was not sent back" if missing else None

    def _problem_of_note(self, path: Path, key: str) -> str | None:
        note = failures.read(path)
        if note is None:
            return "does not say how a job failed"
        awaited = {self._jobs[key].record, self._marker}
        mine = (note.rule, note.key) == (self._rule, key) and note.record in awaited
        return None if mine else "says how another job failed"

    @cached_property
    def _run(self) -> Launch:
        run: Launch = json.loads((self._build / layout.RUN).read_text(encoding="utf-8"))
        return run

    @cached_property
    def _listed(self) -> list[str]:
        """The classes whose objects may be sent back: none to a probe."""
        return self._run["pickles_of"] if self._jobs else []

    @cached_property
    def _holds_project(self) -> bool:
        """Whether the user's own files are there, too, as with ``--outdir .``."""
        if not self._jobs:
            return False
        mine = (self._run["launch_folder"], self._run["workflow"], *self._run["own_folders"])
        return any(Path(path).resolve().is_relative_to(self._build.resolve()) for path in mine)

    @cached_property
    def _notes(self) -> dict[str, str]:
        """The keys of jobs by the paths of their notes."""
        paths = {failures.path_of(self._build, self._rule, key): key for key in self._jobs}
        return {str(path.relative_to(self._build)): key for path, key in paths.items()}

    @cached_property
    def _logs(self) -> set[str]:
        places = [self._place, *(key.split("/") if key else () for key in self._jobs)]
        return {layout.log(self._rule, place) for place in places}

    @cached_property
    def _single(self) -> set[str]:
        warnings = (failures.warning_of(self._build, self._rule, key) for key in self._jobs)
        mine = {*self._notes, *(str(path.relative_to(self._build)) for path in warnings)}
        return mine if self._marker is None else mine | {self._marker}

    @cached_property
    def _given(self) -> set[str]:
        """Results of an earlier job that it was sent, and keeps."""
        adopted = (job for entry in self._jobs.values() for job in entry.adopted)
        return {name for job in adopted for name in job.results}

    @cached_property
    def _read(self) -> set[str]:
        """The records of the jobs that it reads, and the markers of their bundles."""
        names: set[str] = set()
        for entry in self._jobs.values():
            markers = (read.marker for read in entry.reads)
            names |= {marker for marker in markers if marker is not None}
            folders = [read.folder for read in entry.reads] + [job.folder for job in entry.adopted]
            names |= {f"{folder}/{layout.RECORD}" for folder in folders}
        return names


@cache
def _record_schema() -> Draft202012Validator:
    """Return what checks a record without the checksum of its file, which was compared before."""
    from jsonschema import Draft202012Validator  # takes a while to import

    text = (resources.files("fasthep_smk.storage") / "record.schema.json").read_text("utf-8")
    schema = json.loads(text)
    schema["required"].remove("checksum")
    return Draft202012Validator(schema)
