"""Which nodes of a job have to run if the products of the others exist.

With the default granularity one changed histogram shares its job with the source, the selections
and all other histograms. Their products exist in the superseded job's folder, and with luck the
event stream that the histogram is filled from (see ``plan.wiring``). The job then runs that one
node, and adopts the rest. If anything of it is gone when the job starts, it runs as a whole. If no
node has to run, the job is not started (`reuse.adopt`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

from fasthep_smk.flow.shapes import Key
from fasthep_smk.plan.rules import Job, Rule
from fasthep_smk.plan.wiring import Wire, Wiring
from fasthep_smk.reuse.adopt import partition_of
from fasthep_smk.reuse.index import Index, values_of
from fasthep_smk.reuse.store import JobStore
from fasthep_smk.storage import run_records
from fasthep_smk.storage.task_table import Adopted, Part, Read

_Item = TypeVar("_Item")
#: Tells whether a product exists with at least these columns.
_Exists = Callable[[Key, tuple[str, ...] | None], bool]


def nodes_to_run(
    nodes: Iterable[str],
    wired: Wiring,
    valid: Mapping[str, bool],
    exists: _Exists,
) -> set[str] | None:
    """Return which nodes of a job have to run; ``None`` if it should run as a whole.

    ``valid`` tells of each node whether it ran before with all products that the job must have.
    """
    nodes = list(nodes)
    run = {node for node in nodes if not valid[node]}
    while True:
        lacking = {
            key[0]
            for key, columns in _taken_in(run, wired.wires, nodes).items()
            if not exists(key, columns)
        }
        if not lacking:
            break
        run |= lacking
    if not run or not _is_worth_it(run, nodes, wired):
        return None
    return run


def _is_worth_it(run: set[str], nodes: list[str], wired: Wiring) -> bool:
    """Whether running these nodes only is right, and saves something."""
    if run & wired.writers:
        return False  # which files an earlier job wrote by which node is not known
    sources = run & wired.sources
    if not sources:
        return len(run) < len(nodes)
    # FAST-HEP reads no events for a source that nothing follows but observers of the schema.
    read = {wire.key[0] for node in run - sources for wire in wired.wires.get(node, ())}
    return sources <= read and 2 * len(run) <= len(nodes)


def _taken_in(
    run: set[str], wires: Mapping[str, tuple[Wire, ...]], nodes: Iterable[str]
) -> dict[Key, tuple[str, ...] | None]:
    """Return what the running nodes take from nodes of their job that do not run."""
    others = set(nodes) - run
    columns: dict[Key, tuple[str, ...] | None] = {}
    for wire in (wire for node in run for wire in wires.get(node, ())):
        if wire.key[0] not in others:
            continue
        before = columns.get(wire.key, ())
        both = None if before is None or wire.columns is None else {*before, *wire.columns}
        columns[wire.key] = None if both is None else tuple(sorted(both))
    return columns


def part_of(rule: Rule, job: Job, index: Index, store: JobStore) -> Part | None:
    """Return what of a job has to run, nothing perhaps; ``None`` if all of it."""
    return (
        _Choice(rule, job, index, store, whole=True).part()
        or _Choice(rule, job, index, store, whole=False).part()
    )


class _Choice:
    """What a job adopts: the ``whole`` of it, or what the nodes that run leave."""

    def __init__(self, rule: Rule, job: Job, index: Index, store: JobStore, *, whole: bool) -> None:
        self.rule = rule
        self.job = job
        self.index = index
        self.store = store
        self.whole = whole
        self.wired = rule.wirings[job.signed_as]
        self.values = values_of(rule, job)
        self._is_usable = cache(self._look)

    def part(self) -> Part | None:
        ran = {node: self._last(self.index.ran.get(v, ())) for node, v in self.values.items()}
        keeps = [key for key in self.rule.keeps if key[0] in self.values]
        places = {key: self._place(key, self.rule.live.get(key)) for key in keeps}
        valid = {
            node: folder is not None and all(places[key] for key in keeps if key[0] == node)
            for node, folder in ran.items()
        }
        run: set[str] | None = None
        if self.whole:
            run = set() if all(valid.values()) else None
        elif any(valid.values()):
            run = nodes_to_run(
                self.job.nodes, self.wired, valid, lambda key, live: bool(self._place(key, live))
            )
        if run is None:
            return None
        streams = _taken_in(run, self.wired.wires, self.job.nodes)
        nodes = _by_folder({node: ran[node] for node in ran if node not in run})
        keys = _by_folder({key: places[key] for key in keeps if key[0] not in run})
        wanted = _by_folder({key: self._place(key, live) for key, live in streams.items()})
        cached = _by_folder(
            {
                kept.key: self._place(kept.key, kept.live)
                for kept in self.rule.cached(self.job.signed_as)
                if kept.node not in run
            }
        )
        adopted = [
            Adopted(
                folder=str(folder.relative_to(self.store.build)),
                signature=str(self.index.records[folder]["signature"]),
                nodes=tuple(nodes.get(folder, ())),
                keys=tuple(keys.get(folder, ())),
                streams=tuple(wanted.get(folder, ())),
                cached=tuple(cached.get(folder, ())),
                results=self._results(folder, nodes.get(folder, ())),
            )
            for folder in dict.fromkeys([*nodes, *keys, *wanted, *cached])
        ]
        ordered = tuple(node for node in self.job.nodes if node in run)
        return Part(ordered, self._reads(run), tuple(adopted))

    def _look(self, folder: Path) -> bool:
        """Whether a record can be told as part of another, and its files still stand."""
        record = self.index.records[folder]
        if self.whole:
            can_be_told = run_records.fits(record, partition_of(self.job))
        else:
            can_be_told = run_records.is_quiet(record["runs"])
        if not can_be_told or not record["results"] or not self.wired.writers:
            return can_be_told
        if not self.whole and not record["made_of"]["nodes"].keys() <= self.values.keys():
            return False  # which of the nodes has written a file is not known
        return self.store.results_are_valid(record, content=False)

    def _last(self, folders: Iterable[Path]) -> Path | None:
        """Return that of the last job: of what several wrote for the user, it knows what it is."""
        records = self.index.records
        usable = filter(self._is_usable, folders)
        return max(usable, key=lambda folder: records[folder]["ended"], default=None)

    def _place(self, key: Key, live: Iterable[str] | None) -> Path | None:
        """Return where a product is, with at least these columns."""
        made = self.index.made(self.values[key[0]], key[1], live)
        return self._last(folder for folder in made if self.index.is_there(folder, key))

    def _results(self, folder: Path, nodes: Iterable[str]) -> tuple[str, ...]:
        """Return the files for the user that a job's nodes here wrote."""
        if not self.wired.writers.intersection(nodes):
            return ()
        return tuple(self.index.records[folder]["results"])

    def _reads(self, run: set[str]) -> tuple[Read, ...]:
        """Return what the running nodes read of other jobs."""
        wanted = {wire.key for node in run for wire in self.wired.wires.get(node, ())}
        reads = [
            Read(read.folder, tuple(key for key in read.keys if key in wanted))
            for read in self.job.reads
        ]
        return tuple(read for read in reads if read.keys)


def _by_folder(places: Mapping[_Item, Path | None]) -> dict[Path, list[_Item]]:
    by_folder: dict[Path, list[_Item]] = {}
    for item, folder in places.items():
        if folder is not None:
            by_folder.setdefault(folder, []).append(item)
    return by_folder
