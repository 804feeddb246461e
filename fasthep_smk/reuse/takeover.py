"""Products that exist under another cut: taken over into the job that would make them again.

A product is the same if its node's signature, its origin and its port are (see
``plan.signatures``), and it holds the columns that are wanted, whichever rule made it: with another
granularity, without a stage that was removed, as another part of its dataset.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fasthep_smk import files, products
from fasthep_smk.errors import SmkError
from fasthep_smk.plan.rules import Job, Rule, made_of
from fasthep_smk.plan.signatures import seen_of
from fasthep_smk.reuse.store import Record, Store
from fasthep_smk.translate.snakefile import output_files

__all__ = ["Index", "retold", "take_over"]

#: A node's signature and what it saw of its origin.
_Value = tuple[str, ...]
#: The names of an event stream's columns; ``None``: all, and of what is no event stream.
_Columns = frozenset[str] | None


class Index:
    """Where values and products of finished partition jobs are."""

    def __init__(self, found: Iterable[tuple[Path, Record]], store: Store) -> None:
        self._store = store
        self._stands: dict[Path, bool] = {}
        self.records: dict[Path, Record] = {}
        self.ran: dict[_Value, list[Path]] = {}
        #: Of each product the folders it is in, and the columns that it has there.
        self._made: dict[tuple[str, ...], list[tuple[Path, _Columns]]] = {}
        for folder, record in found:
            self.add(folder, record)

    def add(self, folder: Path, record: Record) -> None:
        """Take in a finished job."""
        origin = record["made_of"].get("origin")
        if not origin:
            return
        self.records[folder] = record
        values = {
            node: (digest, *seen_of(origin["own"], origin["seen"], sees))
            for node, (digest, sees) in record["made_of"]["nodes"].items()
        }
        for value in values.values():
            self.ran.setdefault(value, []).append(folder)
        for entry in record["products"]:
            if entry["node"] in values:
                at = (*values[entry["node"]], entry["port"])
                self._made.setdefault(at, []).append((folder, _columns(entry.get("live"))))

    def made(self, value: _Value, port: str, live: Iterable[str] | None) -> list[Path]:
        """Return the folders of a product with at least these columns."""
        wanted = _columns(live)
        return [
            folder
            for folder, columns in self._made.get((*value, port), [])
            if columns is None or (wanted is not None and wanted <= columns)
        ]

    def results_stand(self, folder: Path) -> bool:
        """Tell whether what a job wrote for the user is still as it left it."""
        if folder not in self._stands:
            self._stands[folder] = self._store.results_stand(self.records[folder])
        return self._stands[folder]


def take_over(rule: Rule, job: Job, index: Index, store: Store) -> Record | None:
    """Make a job's folder of products that other jobs have made; ``None`` if one is missing."""
    roles = [rule.nodes[job.signed_as][node].content["role"] for node in job.nodes]
    writes = any(role in ("sink", "observer") for role in roles)
    chosen = _chosen(rule, job, index, writes)
    if chosen is None:
        return None
    records = {folder: index.records[folder] for folder in {**chosen.nodes, **chosen.products}}
    if not all(_fits(record, job) for record in records.values()):
        return None
    results = {k: v for one in records.values() for k, v in one["results"].items()}
    goal = store.build / job.folder
    made = goal.with_name(f".{goal.name}.taken-over")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    try:
        content = _gather(made, chosen.products, records, rule)
    except (OSError, KeyError, ValueError, SmkError):
        shutil.rmtree(made, ignore_errors=True)
        return None  # damaged or gone: it is made again
    first = next(iter(records.values()))
    record = {
        **first,
        "rule": job.rule,
        "key": job.key,
        "signature": job.signature,
        "started": min(one["started"] for one in records.values()),
        "ended": max(one["ended"] for one in records.values()),
        "results": results if writes else {},
        "made_of": made_of(rule, job),
        **content,
        "runs": [
            run
            for folder, one in records.items()
            for run in _runs(one, job, chosen.nodes.get(folder, ()))
        ],
        "taken_over": [f"{one['rule']}/{one['key']}" for one in records.values()],
    }
    products.write_record(made, record)
    shutil.rmtree(goal, ignore_errors=True)
    made.rename(goal)
    return record


class _Chosen:
    def __init__(self) -> None:
        self.nodes: dict[Path, list[str]] = {}
        self.products: dict[Path, list[tuple[str, str]]] = {}


def _chosen(rule: Rule, job: Job, index: Index, writes: bool) -> _Chosen | None:
    """Return which folder gives what: one for everything if there is one.

    A job that ``writes`` for the user can only be made of jobs whose files are still there.
    """
    assert job.origin is not None
    signatures = rule.nodes[job.signed_as]
    values = {
        node: (item.digest, *seen_of(job.origin.own, job.origin.seen, item.sees))
        for node in job.nodes
        for item in [signatures[node]]
    }
    ran = {node: index.ran.get(value, []) for node, value in values.items()}
    made = {
        key: index.made(values[key[0]], key[1], rule.live.get(key))
        for key in rule.keeps
        if key[0] in values
    }
    if writes:
        ran = {node: list(filter(index.results_stand, found)) for node, found in ran.items()}
        made = {key: list(filter(index.results_stand, found)) for key, found in made.items()}
    places = [*ran.values(), *made.values()]
    if not places or not all(places):
        return None
    everything = set(places[0]).intersection(*places[1:])
    chosen = _Chosen()
    for key, found in made.items():
        folder = _first(found, everything or chosen.products.keys())
        chosen.products.setdefault(folder, []).append(key)
    for node, found in ran.items():
        folder = _first(found, everything or chosen.products.keys())
        chosen.nodes.setdefault(folder, []).append(node)
    return chosen


def _columns(live: Iterable[str] | None) -> _Columns:
    return None if live is None else frozenset(live)


def _first(folders: list[Path], preferred: Iterable[Path]) -> Path:
    wanted = set(preferred)
    return next((folder for folder in folders if folder in wanted), folders[0])


def retold(job: Job, record: Record) -> Record | None:
    """Return a partition job's record as told of the partition under its present name and range.

    ``None`` if it cannot be: what was recorded speaks of the old one.
    """
    if all(run["partition"] == _partition(job) for run in record["runs"]):
        return record
    return {**record, "runs": [*_runs(record, job, job.nodes)]} if _fits(record, job) else None


def _partition(job: Job) -> dict[str, Any] | None:
    return job.partition.as_dict() if job.partition else None


def _fits(record: Record, job: Job) -> bool:
    """Tell whether a record can be told as another partition's: it said nothing about its own."""
    partition = _partition(job)
    return all(
        run["partition"] == partition or not (run["warnings"] or run["resources"])
        for run in record["runs"]
    )


def _gather(
    folder: Path,
    wanted: Mapping[Path, list[tuple[str, str]]],
    records: Mapping[Path, Record],
    rule: Rule,
) -> dict[str, Any]:
    """Put products into a folder; return their part of its record."""
    if len(records) == 1:
        ((source, record),) = records.items()
        return _linked(folder, source, record, wanted.get(source, []), rule)
    from fasthep_smk.streams import register_behaviours

    register_behaviours()
    found = [
        products.Product(
            node=key[0],
            port=key[1],
            kind=_entries(records[source])[key]["kind"],
            value=value,
            stream_file=rule.streams.get(key),
            live=rule.live.get(key),
        )
        for source, keys in wanted.items()
        for key, value in products.load(source, keys).items()
    ]
    found.sort(key=lambda one: rule.keeps.index(one.key))
    return products.save(folder, found, declared=_declared(rule))


def _linked(
    folder: Path, source: Path, record: Record, keys: list[tuple[str, str]], rule: Rule
) -> dict[str, Any]:
    """Share the files of one job that has everything; its archive may hold more."""
    known = _entries(record)
    entries = [known[key] for key in rule.keeps if key in keys]
    names = {name for entry in entries for name in _files_of(entry["value"])}
    for name in names:
        if (source / name).stat().st_size != record["files"][name]["size"]:
            raise ValueError(f"{name} is damaged")
        os.link(source / name, folder / name)
    described = {name: record["files"][name] for name in sorted(names)}
    for name in _declared(rule):
        if name not in names:
            (folder / name).touch()
            described[name] = files.described(folder / name)
    return {"format": record["format"], "products": entries, "files": described}


def _files_of(value: Any) -> Iterator[str]:
    """Yield the files that hold a value: those of its event streams, the archive for the rest."""
    if isinstance(value, list):
        for item in value:
            yield from _files_of(item)
    elif isinstance(value, dict):
        if value.get("$") == "stream":
            yield str(value["file"])
        elif "member" in value and "$" in value:
            yield products.ARCHIVE
        for item in value.values():
            yield from _files_of(item)


def _entries(record: Record) -> dict[tuple[str, str], dict[str, Any]]:
    return {(entry["node"], entry["port"]): entry for entry in record["products"]}


def _declared(rule: Rule) -> list[str]:
    return [name for name in output_files(rule).values() if name != products.RECORD]


def _runs(record: Record, job: Job, nodes: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield what FAST-HEP recorded of some nodes, told of the job's own partition."""
    partition = _partition(job)
    wanted = set(nodes)
    for run in record["runs"]:
        old = (run["partition"] or {}).get("id")
        new = partition["id"] if partition else None
        yield {
            **run,
            "partition": partition,
            "boundary": [item for item in run["boundary"] if item["node"] in wanted],
            "operations": [
                _renamed(item, old, new)
                for item in run["operations"]
                if item.get("node_id") in wanted
            ],
        }


def _renamed(operation: dict[str, Any], old: str | None, new: str | None) -> dict[str, Any]:
    if old == new or old is None or new is None:
        return operation
    name = str(operation.get("id") or "")
    return {**operation, "id": name.replace(old, new), "partition": new}
