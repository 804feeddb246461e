"""What a job takes along: its task, its plan, what it reads of other jobs, its input files.

Nothing else: a job of ten thousand travels with its own line of the task table.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from fasthep_smk.flow.named_files import NamedFiles
from fasthep_smk.flow.rng import file_digest
from fasthep_smk.flow.shapes import Key
from fasthep_smk.storage import failures, hard_links, layout, products
from fasthep_smk.storage.job_settings import attempts_of, read_requests
from fasthep_smk.storage.task_table import JobEntry, TaskTable
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.remote import local_path

if TYPE_CHECKING:
    from fasthep_smk.storage.job_settings import Launch, Requests

#: Where things lie in a parcel, and on a worker below the job's own folder.
BUILD, LAUNCH, BESIDE, ELSEWHERE = "build", "launch", "beside", "elsewhere"


@dataclass
class Load:
    """What a job, or bundle of jobs, takes along.

    ``content`` are files by their names in the parcel, ``places`` where paths of this machine lie
    below the job's folder there.
    """

    rule: str
    place: tuple[str, ...]
    content: dict[str, Path | bytes] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)

    def about(self) -> dict[str, object]:
        """Return it as the parcel tells it."""
        return {
            "rule": self.rule,
            "place": list(self.place),
            "places": self.places,
            "submitted": round(time.time(), 3),
        }


def load_of(build: Path, rule: str, place: Iterable[str], *, shared: Iterable[str] = ()) -> Load:
    """Return what a job takes along, by its rule and wildcards' values.

    Files below a folder in ``shared`` stay: the worker sees them under the same path.

    Raises:
        KeyError: there is no such job.
        OSError, Damaged: something that it reads is not there.
    """
    return _Loading(build, rule, tuple(place), tuple(shared)).load()


class _Loading:
    def __init__(
        self, build: Path, rule: str, place: tuple[str, ...], shared: tuple[str, ...]
    ) -> None:
        self.build = build
        self.shared = [Path(os.path.normpath(path)) for path in shared]
        self.run: Launch = read_json(build / layout.RUN)
        self.table = read_table(build, rule, "/".join(place))
        self.found = Load(rule, place)

    def load(self) -> Load:
        launch = Path(self.run["launch_folder"])
        self.found.places |= {str(self.build): BUILD, str(launch): LAUNCH}
        self.found.places.setdefault(str(Path(self.run["workflow"]).parent), BESIDE)
        self._add_task()
        for key, entry in self.table.jobs.items():
            self._add_plan(entry)
            note = failures.path_of(self.build, self.found.rule, key)
            if note.is_file():  # of an earlier attempt
                self.found.content[f"{BUILD}/{note.relative_to(self.build)}"] = note
            for read in entry.reads:
                self._add_products(read.folder, read.keys)
            for adopted in entry.adopted:
                self._add_products(
                    adopted.folder, [*adopted.keys, *adopted.streams, *adopted.cached]
                )
                for name in adopted.results:
                    self.found.content[f"{BUILD}/{name}"] = self.build / name
            for path in _input_files(entry, launch):
                self._add_file(path)
        return self.found

    def _add_task(self) -> None:
        content, table = self.found.content, self.table
        signed = {entry.signed_as for entry in table.jobs.values()}
        table = replace(
            table,
            jobs={key: _with_digest(entry) for key, entry in table.jobs.items()},
            nodes={name: nodes for name, nodes in table.nodes.items() if name in signed},
            cached={name: cached for name, cached in table.cached.items() if name in signed},
        )
        content[f"{BUILD}/{layout.table(self.found.rule)}"] = table.to_text().encode("utf-8")
        changed = (self.build / layout.REQUESTS).stat().st_mtime_ns
        requests = _requests(self.build, changed)
        rule = self.found.rule
        mine = {rule: attempts_of(requests, rule, "/".join(self.found.place))}
        content[f"{BUILD}/{layout.REQUESTS}"] = _as_bytes(
            {**requests, "rules": mine, "by_dataset": {}}
        )
        content[f"{BUILD}/{layout.ENVIRONMENT}"] = self.build / layout.ENVIRONMENT
        content[f"{BUILD}/{layout.RUN}"] = _as_bytes(
            {**self.run, "own_folders": [], "python_path": []}
        )

    def _add_plan(self, entry: JobEntry) -> None:
        name = f"{BUILD}/{entry.plan}"
        if name in self.found.content:
            return
        self.found.content[name] = self.build / entry.plan
        plan: JsonObject = read_json(self.build / entry.plan)
        roots = (Path(self.run["launch_folder"]), Path(self.run["workflow"]).parent)
        wanted = set(entry.nodes)
        contents = [node.get("params") for node in plan["nodes"] if node["id"] in wanted]
        contents.append(dict(plan.get("execution") or {}).get("resources"))
        context = plan.get("context") or {}
        contents.append(context.get("globals"))
        dataset = dict((context.get("datasets") or {}).get(entry.dataset) or {})
        dataset.pop("files", None)  # these are its inputs
        contents.append(dataset)
        for path in NamedFiles(roots, own=[self.build]).find(contents).values():
            if path.is_file():
                self._add_file(path)

    def _add_products(self, folder: str, keys: Iterable[Key]) -> None:
        """Add a finished job's record, and those of its files that hold these products."""
        record = products.read_record(self.build / folder)
        entries = hard_links.entries(record)
        if self.table.scope == "merge" and record["rule"] == "side_products":
            keys = entries  # it hands all of them on
        names = {products.RECORD: None}
        for node, port in keys:
            if (node, port) in entries:  # else the node does not apply there
                names |= dict.fromkeys(hard_links.files_of(entries[node, port]["value"]))
        for name in names:
            self.found.content[f"{BUILD}/{folder}/{name}"] = self.build / folder / name

    def _add_file(self, path: Path) -> None:
        """Add a file of the user's, under the same relative path if it has one."""
        path = Path(os.path.normpath(path))
        if any(path.is_relative_to(folder) for folder in self.shared):
            return
        for here, there in self.found.places.items():
            if path.is_relative_to(here) and path != Path(here):
                self.found.content[f"{there}/{path.relative_to(here)}"] = path
                return
        if str(path) not in self.found.places:
            goal = f"{ELSEWHERE}/{len(self.found.places)}/{path.name}"
            self.found.places[str(path)] = goal
            self.found.content[goal] = path


def _with_digest(entry: JobEntry) -> JobEntry:
    """Return a job's entry with what random numbers are seeded with.

    On the worker the input file has another name if the workflow gives an absolute path.
    """
    return replace(entry, file_digest=file_digest(entry.file)) if entry.file else entry


def _input_files(entry: JobEntry, launch: Path) -> Iterator[Path]:
    """Yield the local input files of a job; Snakemake knows no path with braces in it."""
    names = [entry.file] if entry.file else []
    names += [name for name in entry.inputs if Path(name).is_absolute()]
    for path in filter(None, map(local_path, dict.fromkeys(names))):
        if (launch / path).is_file():
            yield launch / path


def read_table(build: Path, rule: str, key: str) -> TaskTable:
    """Return the task table of a rule with one job, or bundle of jobs.

    Raises:
        KeyError: there is no such job.
        OSError, UnreadableTable: there is no such table.
    """
    changed = (build / layout.table(rule)).stat().st_mtime_ns
    return _table(build, rule, changed).only(key)


def read_json(path: Path) -> Any:
    """Return a file of the translation, which stays as it is while jobs are sent."""
    return _parsed(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _requests(build: Path, _changed: int) -> Requests:
    """Return what jobs ask for: read once, while many jobs are sent."""
    return read_requests(build)


@lru_cache(maxsize=16)
def _table(build: Path, rule: str, _changed: int) -> TaskTable:
    return TaskTable.read(build, rule)


@lru_cache(maxsize=16)
def _parsed(path: Path, _changed: int) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _as_bytes(content: Mapping[str, object]) -> bytes:
    return (json.dumps(content) + "\n").encode("utf-8")
