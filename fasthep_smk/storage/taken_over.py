"""What a job has from earlier ones: products of theirs, and what they have recorded."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.flow.shapes import Key
from fasthep_smk.flow.summary import relocate
from fasthep_smk.storage import hard_links, products, run_records
from fasthep_smk.storage.products import ARCHIVE, Product
from fasthep_smk.storage.record import Record, RunFacts, Saved
from fasthep_smk.storage.streams import register_behaviours
from fasthep_smk.storage.task_table import Adopted, Kept
from fasthep_smk.util import files

if TYPE_CHECKING:
    from fasthep_smk.flow.records import PartitionData
    from fasthep_smk.flow.shapes import Store

#: A product: its job's folder and record, and its key.
_Place = tuple[Path, Record, Key]


class TakenOver:
    """What a job of a ``partition`` adopts.

    Event streams are shared as files, one archive is copied as it is, and other values are read.
    ``kept`` are the job's products and cached streams, ``read`` returns the record of a job.
    ``streams`` are what its nodes read, ``records`` those of the jobs that it adopts from.

    Raises:
        OSError, ValueError, KeyError, SmkError: something is not as the translation has found it.
    """

    def __init__(
        self,
        build: Path,
        adopted: Iterable[Adopted],
        partition: PartitionData | None,
        kept: Iterable[Kept],
        *,
        read: Callable[[Path], Record] = products.read_record,
    ) -> None:
        self._build, self._partition = build, partition
        self._kept = {item.key: item for item in kept}
        self.streams: Store = {}
        self.records: list[Record] = []
        self.runs: list[RunFacts] = []
        self.results: dict[str, files.FileFacts] = {}
        self.outside: dict[str, dict[str, str]] = {}
        self._values: list[Product] = []
        self._copied: list[_Place] = []
        self._shared: list[_Place] = []
        self._cached: list[_Place] = []
        for item in adopted:
            self._take(item, build / item.folder, read(build / item.folder))

    def _take(self, adopted: Adopted, folder: Path, record: Record) -> None:
        if record["signature"] != adopted.signature:
            raise ValueError(f"{adopted.folder} now belongs to another job")
        here = os.path.realpath(self._build)
        there = str(record.get("build") or here)
        entries = hard_links.entries(record)
        lie = {key: set(hard_links.files_of(entries[key]["value"])) for key in adopted.keys}
        shared = [key for key in adopted.keys if lie[key] and ARCHIVE not in lie[key]]
        copied = [key for key in adopted.keys if lie[key] <= {ARCHIVE}]
        if here != there or self._copied:
            copied = []
        values = [key for key in adopted.keys if key not in (*shared, *copied)]
        if adopted.streams or values:
            register_behaviours()
            loaded = products.load(folder, [*adopted.streams, *values])
            if here != there:
                loaded = relocate(loaded, there, here)
            self.streams |= {key: loaded[key] for key in adopted.streams}
            for key in values:
                kept, value = self._kept[key], loaded[key]
                kind = entries[key]["kind"]
                self._values.append(Product(*key, kind, value, kept.file, kept.live))
        self._shared += [(folder, record, key) for key in shared]
        self._copied += [(folder, record, key) for key in copied]
        self._cached += [(folder, record, key) for key in adopted.cached]
        runs = [*run_records.runs(record, self._partition, adopted.nodes)]
        self.runs += runs if here == there else relocate(runs, there, here)
        for name in adopted.results:
            facts = record["results"].get(name)
            if facts is None or files.described(self._build / name) != facts:
                raise ValueError(f"{name} was changed")
            self.results[name] = facts
        self.outside |= run_records.outside_of(record, adopted.nodes)
        self.records.append(record)

    @property
    def jobs(self) -> list[str]:
        """The jobs that it adopts from, as records name them."""
        return [f"{record['rule']}/{record['key']}" for record in self.records]

    def check(self) -> None:
        """Look at the content of files that :meth:`save` does not read.

        Raises:
            SmkError: one is damaged.
        """
        seen = {
            (folder, name): record
            for folder, record, key in (*self._shared, *self._copied)
            for name in hard_links.files_of(hard_links.entries(record)[key]["value"])
        }
        for (folder, name), record in seen.items():
            products.check(folder, record, name)

    def save(self, folder: Path, made: Sequence[Product], declared: Iterable[str]) -> Saved:
        """Write a job's products into its folder, what it has ``made`` and what it adopts."""
        folder.mkdir(parents=True, exist_ok=True)
        shared = [self._share(folder, *place) for place in self._shared]
        for place in self._cached:
            with contextlib.suppress(OSError, ValueError, KeyError):  # no loss
                entry, described = self._share(folder, *place)
                entry["spare"] = True
                shared.append((entry, described))
        written = [*self._values, *made]
        names = {name for _, described in shared for name in described}
        if names.intersection(product.stream_file or "" for product in written):
            raise ValueError("two event streams have the same file name")
        entries = [hard_links.entries(record)[key].copy() for _, record, key in self._copied]
        source = self._copied[0] if self._copied else None
        if source and not written and (facts := source[1]["files"].get(ARCHIVE)):
            archive = hard_links.link(source[0] / ARCHIVE, folder / ARCHIVE, facts)
            shared += [(entry, {ARCHIVE: archive}) for entry in entries]
            content = products.save(folder, [], declared=declared)
        else:
            if source:
                products.check(source[0], source[1], ARCHIVE)
            adopted = (source[0], entries) if source else None
            content = products.save(folder, written, declared=declared, adopted=adopted)
        for entry, described in shared:
            content["products"].append(entry)
            content["files"] |= described
        order = list(self._kept)
        content["products"].sort(key=lambda entry: order.index((entry["node"], entry["port"])))
        return content

    def _share(self, goal: Path, folder: Path, record: Record, key: Key) -> hard_links.Shared:
        name = self._kept[key].file if key in self._kept else None
        entry, described = hard_links.share(folder, record, key, goal, name=name)
        entry.pop("spare", None)
        return entry, described
