"""Products that exist under another cut: adopted by the job that would make them again.

A product is the same if its node's signature, its origin and its port are (see
``plan.signatures``), and it holds the columns that are wanted, whichever rule made it: with another
granularity, without a stage that was removed, as another part of its dataset.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.plan.rules import Job, Rule, made_of, output_files
from fasthep_smk.plan.signatures import seen_of
from fasthep_smk.reuse.store import JobStore
from fasthep_smk.storage import hard_links, layout, products, run_records
from fasthep_smk.storage.damage import difference
from fasthep_smk.storage.record import ProductEntry, Record, Saved
from fasthep_smk.util import files
from fasthep_smk.util.errors import SmkError

if TYPE_CHECKING:
    from fasthep_smk.flow.records import PartitionData

#: A node's signature and what it saw of its origin.
Value = tuple[str, ...]
#: The names of an event stream's columns; ``None``: all, and of what is no event stream.
_Columns = frozenset[str] | None


class Index:
    """Where values and products of finished partition jobs are."""

    def __init__(self, finished: Iterable[tuple[Path, Record]], store: JobStore) -> None:
        self._store = store
        self.records: dict[Path, Record] = {}
        self.ran: dict[Value, list[Path]] = {}
        #: Of each product the folders it is in, and the columns that it has there.
        self._made: dict[tuple[str, ...], list[tuple[Path, _Columns]]] = {}
        self._files: dict[tuple[Path, str, str], frozenset[str]] = {}
        self._is_file = cache(self._look)
        #: Whether what a job wrote for the user is still as it left it, by its folder.
        self.results_are_valid = cache(self._look_at_results)
        for folder, record in finished:
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
            key = (entry["node"], entry["port"])
            self._files[folder, *key] = frozenset(hard_links.files_of(entry["value"]))
            gone = entry.get("spare") and not self.is_there(folder, key)
            if entry["node"] in values and not gone:
                at = (*values[entry["node"]], entry["port"])
                self._made.setdefault(at, []).append((folder, _columns(entry.get("live"))))

    def made(self, value: Value, port: str, live: Iterable[str] | None) -> list[Path]:
        """Return the folders of a product with at least these columns."""
        wanted = _columns(live)
        return [
            folder
            for folder, columns in self._made.get((*value, port), [])
            if columns is None or (wanted is not None and wanted <= columns)
        ]

    def is_there(self, folder: Path, key: tuple[str, str]) -> bool:
        """Whether the files of a product exist and are as long as they were written."""
        return all(self._is_file(folder, name) for name in self._files[folder, *key])

    def _look(self, folder: Path, name: str) -> bool:
        facts = self.records[folder]["files"].get(name)
        return facts is not None and difference(folder / name, facts) is None

    def _look_at_results(self, folder: Path) -> bool:
        return self._store.results_are_valid(self.records[folder])


def adopt(rule: Rule, job: Job, index: Index, store: JobStore) -> Record | None:
    """Make a job's folder of products that other jobs have made; ``None`` if one is missing."""
    roles = [rule.nodes[job.signed_as][node].content["role"] for node in job.nodes]
    writes = any(role in ("sink", "observer") for role in roles)
    chosen = _chosen(rule, job, index, writes)
    if chosen is None:
        return None
    records = {folder: index.records[folder] for folder in {**chosen.nodes, **chosen.products}}
    if not all(run_records.fits(record, _partition(job)) for record in records.values()):
        return None
    results = {k: v for record in records.values() for k, v in record["results"].items()}
    goal = store.build / job.folder
    temporary = goal.with_name(f".{goal.name}.adopted")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        content = _gather(temporary, chosen.products, records, rule)
        _adopt_cached(temporary, content, rule, job, index)
    except (OSError, KeyError, ValueError, SmkError):
        shutil.rmtree(temporary, ignore_errors=True)
        return None  # damaged or gone: it is made again
    record: Record = {
        **next(iter(records.values())),
        "rule": job.rule,
        "key": job.key,
        "signature": job.signature,
        "started": min(record["started"] for record in records.values()),
        "ended": max(record["ended"] for record in records.values()),
        "results": results if writes else {},
        "outside": {
            node: made
            for folder, nodes in chosen.nodes.items()
            for node, made in run_records.outside_of(records[folder], nodes).items()
        },
        "observed": list(
            dict.fromkeys(
                digest for record in records.values() for digest in record.get("observed", ())
            )
        ),
        "made_of": made_of(rule, job),
        **content,
        "runs": [
            run
            for folder, record in records.items()
            for run in run_records.runs(record, _partition(job), chosen.nodes.get(folder, ()))
        ],
        "adopted": [f"{record['rule']}/{record['key']}" for record in records.values()],
    }
    record.pop("ran", None)
    products.write_record(temporary, record)
    shutil.rmtree(goal, ignore_errors=True)
    temporary.rename(goal)
    return record


@dataclass
class _Chosen:
    nodes: dict[Path, list[str]] = field(default_factory=dict)
    products: dict[Path, list[tuple[str, str]]] = field(default_factory=dict)


def _chosen(rule: Rule, job: Job, index: Index, writes: bool) -> _Chosen | None:
    """Return which folder gives what: one for everything if there is one.

    A job that ``writes`` for the user can only be made of jobs whose files are still there.
    """
    values = values_of(rule, job)
    ran = {node: index.ran.get(value, []) for node, value in values.items()}
    kept = {
        key: index.made(values[key[0]], key[1], rule.live.get(key))
        for key in rule.keeps
        if key[0] in values
    }
    if writes:
        ran = {node: list(filter(index.results_are_valid, paths)) for node, paths in ran.items()}
        kept = {key: list(filter(index.results_are_valid, paths)) for key, paths in kept.items()}
    places = [*ran.values(), *kept.values()]
    if not places or not all(places):
        return None
    everything = set(places[0]).intersection(*places[1:])
    chosen = _Chosen()
    for key, paths in kept.items():
        folder = _first(paths, everything or chosen.products.keys())
        chosen.products.setdefault(folder, []).append(key)
    for node, paths in ran.items():
        folder = _first(paths, everything or chosen.products.keys())
        chosen.nodes.setdefault(folder, []).append(node)
    return chosen


def values_of(rule: Rule, job: Job) -> dict[str, Value]:
    """Return what stands for the value of each node of a partition's job."""
    assert job.origin is not None
    signatures = rule.nodes[job.signed_as]
    return {
        node: (item.digest, *seen_of(job.origin.own, job.origin.seen, item.sees))
        for node in job.nodes
        for item in [signatures[node]]
    }


def _columns(live: Iterable[str] | None) -> _Columns:
    return None if live is None else frozenset(live)


def _first(folders: list[Path], preferred: Iterable[Path]) -> Path:
    wanted = set(preferred)
    return next((folder for folder in folders if folder in wanted), folders[0])


def with_partition(job: Job, record: Record) -> Record | None:
    """Return a partition job's record as told of the partition under its present name and range.

    ``None`` if it cannot be: what was recorded speaks of the old one.
    """
    partition = _partition(job)
    if all(run["partition"] == partition for run in record["runs"]):
        return record
    if not run_records.fits(record, partition):
        return None
    return {**record, "runs": [*run_records.runs(record, partition, job.nodes)]}


def _partition(job: Job) -> PartitionData | None:
    return job.partition.as_dict() if job.partition else None


def _gather(
    folder: Path,
    wanted: Mapping[Path, list[tuple[str, str]]],
    records: Mapping[Path, Record],
    rule: Rule,
) -> Saved:
    """Put products into a folder; return their part of its record."""
    if len(records) == 1:
        ((source, record),) = records.items()
        return _linked(folder, source, record, wanted.get(source, []), rule)
    from fasthep_smk.storage.streams import register_behaviours

    register_behaviours()
    gathered = [
        products.Product(
            node=key[0],
            port=key[1],
            kind=hard_links.entries(records[source])[key]["kind"],
            value=value,
            stream_file=rule.streams.get(key),
            live=rule.live.get(key),
        )
        for source, keys in wanted.items()
        for key, value in products.load(source, keys).items()
    ]
    gathered.sort(key=lambda product: rule.keeps.index(product.key))
    return products.save(folder, gathered, declared=_declared(rule))


def _linked(
    folder: Path, source: Path, record: Record, keys: list[tuple[str, str]], rule: Rule
) -> Saved:
    """Share the files of one job that has everything; its archive may hold more."""
    by_key = hard_links.entries(record)
    entries: list[ProductEntry] = []
    described: dict[str, files.FileFacts] = {}
    for key in [key for key in rule.keeps if key in keys]:
        entry, names = by_key[key].copy(), set(hard_links.files_of(by_key[key]["value"]))
        if products.ARCHIVE not in names:
            entry, shared = hard_links.share(
                source, record, key, folder, name=rule.streams.get(key)
            )
            described |= shared
        else:
            for name in names - described.keys():
                described[name] = hard_links.link(
                    source / name, folder / name, record["files"][name]
                )
        entry.pop("spare", None)
        entries.append(entry)
    for name in _declared(rule):
        if name not in described:
            (folder / name).touch()
            described[name] = files.described(folder / name)
    described = {name: described[name] for name in sorted(described)}
    return {"format": record["format"], "products": entries, "files": described}


def cached_streams(rule: Rule, job: Job, index: Index) -> dict[tuple[str, str], Path]:
    """Return where the streams are that a job would keep if it ran."""
    values = values_of(rule, job)
    streams = {}
    for key, live in rule.wirings[job.signed_as].cached.items():
        places = index.made(values[key[0]], key[1], live)
        there = (folder for folder in places if index.is_there(folder, key))
        folder = next(there, None)
        if folder is not None:
            streams[key] = folder
    return streams


def _adopt_cached(folder: Path, content: Saved, rule: Rule, job: Job, index: Index) -> None:
    """Let a job that is made of others' products have their cached streams too."""
    for key, source in cached_streams(rule, job, index).items():
        name = layout.stream(*key, cached=True)
        entry, described = hard_links.share(source, index.records[source], key, folder, name=name)
        entry["spare"] = True
        content["products"].append(entry)
        content["files"] |= described


def _declared(rule: Rule) -> list[str]:
    return [name for name in output_files(rule).values() if name != products.RECORD]
