"""What a job takes along: its task, its plan, what it reads of other jobs, its input files.

Nothing else: a job of ten thousand travels with its own line of the task table.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from fasthep_smk.flow.named_files import NamedFiles
from fasthep_smk.flow.rng import file_digest
from fasthep_smk.storage import failures, hard_links, layout, products
from fasthep_smk.util.remote import is_remote

__all__ = ["Load", "load_of", "read_json"]

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

    def about(self) -> dict[str, Any]:
        """Return it as the parcel tells it."""
        return {"rule": self.rule, "place": list(self.place), "places": self.places}


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
        self.run = read_json(build / layout.RUN)
        self.table = read_json(build / layout.table(rule))
        self.found = Load(rule, place)

    def load(self) -> Load:
        key = "/".join(self.found.place)
        bundle = self.table["bundles"].get(key)
        keys = [key] if bundle is None else bundle["jobs"]
        entries = {one: self.table["jobs"][one] for one in keys}
        self._set_out()
        self._add_task(entries, {} if bundle is None else {key: bundle})
        for one, entry in entries.items():
            self._add_plan(entry)
            note = failures.path_of(self.build, self.found.rule, one)
            if note.is_file():  # of an earlier attempt
                self.found.content[f"{BUILD}/{note.relative_to(self.build)}"] = note
            for read in entry["reads"]:
                self._add_products(read["folder"], read["keys"])
            for given in entry.get("part", {}).get("given", ()):
                products_of = [*given["keys"], *given["streams"], *given["spares"]]
                self._add_products(given["folder"], products_of)
                for name in given["results"]:
                    self.found.content[f"{BUILD}/{name}"] = self.build / name
            self._add_inputs(entry)
        return self.found

    def _set_out(self) -> None:
        launch = str(self.run["launch_folder"])
        beside = str(Path(self.run["workflow"]).parent)
        places = {str(self.build): BUILD, launch: LAUNCH}
        places.setdefault(beside, BESIDE)
        self.found.places = places

    def _add_task(self, entries: Mapping[str, Any], bundles: Mapping[str, Any]) -> None:
        content = self.found.content
        signed = {str(entry["signed_as"]) for entry in entries.values()}
        table = {
            **self.table,
            "jobs": {one: _with_digest(entry) for one, entry in entries.items()},
            "bundles": dict(bundles),
            "siblings": len(self.table["jobs"]),
        }
        for name in ("nodes", "spares"):
            table[name] = {one: v for one, v in self.table[name].items() if one in signed}
        content[f"{BUILD}/{layout.table(self.found.rule)}"] = _as_bytes(table)
        requests = dict(read_json(self.build / layout.REQUESTS))
        requests["rules"] = {self.found.rule: requests["rules"][self.found.rule]}
        content[f"{BUILD}/{layout.REQUESTS}"] = _as_bytes(requests)
        content[f"{BUILD}/{layout.ENVIRONMENT}"] = self.build / layout.ENVIRONMENT
        content[f"{BUILD}/{layout.RUN}"] = _as_bytes(
            {**self.run, "own_folders": [], "python_path": []}
        )

    def _add_plan(self, entry: Mapping[str, Any]) -> None:
        name = f"{BUILD}/{entry['plan']}"
        if name in self.found.content:
            return
        self.found.content[name] = self.build / str(entry["plan"])
        plan = read_json(self.build / str(entry["plan"]))
        roots = (Path(self.run["launch_folder"]), Path(self.run["workflow"]).parent)
        wanted = set(entry["nodes"])
        said = [node.get("params") for node in plan["nodes"] if node["id"] in wanted]
        said.append(dict(plan.get("execution") or {}).get("resources"))
        context = plan.get("context") or {}
        said.append(context.get("globals"))
        datasets = context.get("datasets") or {}
        said += [_metadata(datasets.get(entry["dataset"]))]
        for path in NamedFiles(roots, own=[self.build]).find(said).values():
            if path.is_file():
                self._add_file(path)

    def _add_products(self, folder: str, keys: Iterable[Any]) -> None:
        """Add a finished job's record, and those of its files that hold these products."""
        record = products.read_record(self.build / folder)
        known = hard_links.entries(record)
        names = {products.RECORD: None}
        for node, port in keys:
            if (node, port) in known:  # else the node does not apply there
                names |= dict.fromkeys(hard_links.files_of(known[node, port]["value"]))
        for name in names:
            self.found.content[f"{BUILD}/{folder}/{name}"] = self.build / folder / name

    def _add_inputs(self, entry: Mapping[str, Any]) -> None:
        for path in _input_files(entry, Path(self.run["launch_folder"])):
            self._add_file(path)

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


def _metadata(dataset: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a dataset says of itself, without its list of files."""
    return {name: value for name, value in (dataset or {}).items() if name != "files"}


def _with_digest(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a job's entry with what random numbers are seeded with.

    On the worker the input file has another name if the workflow gives an absolute path.
    """
    partition = entry.get("partition")
    return {**entry, "file_digest": file_digest(str(partition["file"]))} if partition else entry


def _input_files(entry: Mapping[str, Any], launch: Path) -> Iterator[Path]:
    """Yield the local input files of a job; Snakemake knows no path with braces in it."""
    partition = entry.get("partition")
    names = [str(partition["file"])] if partition and partition.get("file") else []
    names += [name for name in entry["inputs"] if Path(name).is_absolute()]
    for name in dict.fromkeys(names):
        path = launch / name
        if not is_remote(name) and path.is_file():
            yield path


def read_json(path: Path) -> dict[str, Any]:
    """Return a file of the translation, which stays as it is while jobs are sent."""
    return _parsed(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=16)
def _parsed(path: Path, _changed: int) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _as_bytes(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content) + "\n").encode("utf-8")
