"""Where products of finished jobs are, whichever rule has made them.

A product is the same if its node's signature, its origin and its port are (see
``plan.signatures``), and it holds the columns that are wanted: with another granularity, without a
stage that was removed, as another part of its dataset.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from fasthep_smk.flow.shapes import Key
from fasthep_smk.plan.rules import Job, Rule
from fasthep_smk.plan.signatures import seen_of
from fasthep_smk.storage import hard_links
from fasthep_smk.storage.damage import difference
from fasthep_smk.storage.record import Record

#: A node's signature and what it saw of its origin.
Value = tuple[str, ...]
#: The names of an event stream's columns; ``None``: all, and of what is no event stream.
_Columns = frozenset[str] | None


class Index:
    """Where values and products of finished partition jobs are, by their folders."""

    def __init__(self, finished: Iterable[tuple[Path, Record]]) -> None:
        self.records: dict[Path, Record] = {}
        self.ran: dict[Value, list[Path]] = {}
        #: Of each product the folders it is in, and the columns that it has there.
        self._made: dict[tuple[str, ...], list[tuple[Path, _Columns]]] = {}
        self._files: dict[tuple[Path, Key], frozenset[str]] = {}
        self._is_file = cache(self._look)
        for folder, record in finished:
            self._add(folder, record)

    def _add(self, folder: Path, record: Record) -> None:
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
        for key, entry in hard_links.entries(record).items():
            self._files[folder, key] = frozenset(hard_links.files_of(entry["value"]))
            gone = entry.get("spare") and not self.is_there(folder, key)
            if key[0] in values and not gone:
                at = (*values[key[0]], key[1])
                self._made.setdefault(at, []).append((folder, _columns(entry.get("live"))))

    def made(self, value: Value, port: str, live: Iterable[str] | None) -> list[Path]:
        """Return the folders of a product with at least these columns."""
        wanted = _columns(live)
        return [
            folder
            for folder, columns in self._made.get((*value, port), [])
            if columns is None or (wanted is not None and wanted <= columns)
        ]

    def is_there(self, folder: Path, key: Key) -> bool:
        """Whether the files of a product exist and are as long as they were written."""
        return all(self._is_file(folder, name) for name in self._files[folder, key])

    def _look(self, folder: Path, name: str) -> bool:
        facts = self.records[folder]["files"].get(name)
        return facts is not None and difference(folder / name, facts) is None


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
