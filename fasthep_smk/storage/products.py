"""What jobs hand to each other, as files: exact and checksummed.

A job's products lie in one folder: an ``.arrow`` file for each event stream, ``products.zip`` for
histograms and objects, and ``record.json``, which is written last, when the others are on disk, and
describes them: the structure of each value, and size and SHA-256 of every file; it begins with a
checksum of itself. Plain data and artifact references are JSON in the record. What has no exact
form as JSON is pickled, and plainly unpickled: the folder is this user's own. Where a worker's
files are accepted, their pickles are checked before (:mod:`fasthep_smk.storage.pickles`).
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import awkward as ak

from fasthep_smk.flow.shapes import Key
from fasthep_smk.storage import hard_links, pickles
from fasthep_smk.storage.damage import difference
from fasthep_smk.storage.layout import ARCHIVE, CACHED, RECORD
from fasthep_smk.storage.record import (
    FORMAT,
    Damaged,
    ProductEntry,
    Saved,
    corrupt,
    read_record,
    write_record,
)
from fasthep_smk.storage.streams import read_stream, write_stream
from fasthep_smk.util import files
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.errors import Findings
from fasthep_smk.util.names import encode
from fasthep_smk.util.plain_values import NotPlainError, from_plain, to_plain

#: What others use beside the names that are defined here.
__all__ = ["ARCHIVE", "RECORD", "Damaged", "read_record", "write_record"]


@dataclass(frozen=True)
class Product:
    """One value of a job: which node and port made it, of which kind, and where a stream goes."""

    node: str
    port: str
    kind: str
    value: object
    stream_file: str | None = None
    live: tuple[str, ...] | None = None

    @property
    def key(self) -> Key:
        return (self.node, self.port)


def save(
    folder: Path,
    products: Iterable[Product],
    *,
    declared: Iterable[str],
    adopted: tuple[Path, Iterable[ProductEntry]] | None = None,
) -> Saved:
    """Write ``products`` into ``folder``, to the disk itself; return their part of the record.

    ``declared`` names files that must exist afterwards even if no product needed them (a source
    that delivered no event stream), since Snakemake waits for them. ``adopted`` are entries of
    another folder's record: what its archive holds of them is copied as it is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    writer = _Writer(folder)
    entries = [] if adopted is None else writer.adopt(adopted[0] / ARCHIVE, adopted[1])
    entries += [writer.entry(product) for product in products]
    for name in declared:
        if (folder / name).exists():  # perhaps shared with another folder
            continue
        if name == ARCHIVE:
            writer.archive()
        else:
            (folder / name).touch()
            writer.files.append(name)
    writer.close()
    files.sync_all(folder / name for name in writer.files)
    files.sync(folder)
    described = {name: files.described(folder / name) for name in writer.files}
    return {"format": FORMAT, "products": entries, "files": described}


def verify(folder: Path) -> None:
    """Check the record of a finished job and the files that it describes, but for cached streams.

    Raises:
        Damaged: a file is missing, truncated or altered.
    """
    record = read_record(folder)
    for name in record["files"]:
        if not name.endswith(CACHED):
            check(folder, record, name)


def check(folder: Path, record: Saved, name: str) -> Path:
    """Return the path of a file of a finished job, which is as it was written.

    Raises:
        Damaged: it is missing, truncated or altered.
    """
    path = folder / name
    if (described := record["files"].get(name)) is None:
        raise corrupt(path, "is not in the record of its job")
    if problem := difference(path, described, content=True):
        raise corrupt(path, problem)
    return path


def load(folder: Path, wanted: Iterable[Key] | None = None) -> dict[Key, object]:
    """Return the products of a finished job, those in ``wanted`` or all, checksums verified.

    Raises:
        Damaged: a file is missing, truncated or altered, or does not hold what is wanted.
    """
    record = read_record(folder)
    entries = hard_links.entries(record)
    keys = list(entries if wanted is None else wanted)
    if missing := ", ".join(f"{node}.{port}" for node, port in keys if (node, port) not in entries):
        raise corrupt(folder / RECORD, f"does not hold {missing}")
    with contextlib.ExitStack() as stack:

        @cache
        def archive() -> zipfile.ZipFile:
            return stack.enter_context(zipfile.ZipFile(check(folder, record, ARCHIVE)))

        def leaf(item: JsonObject) -> object:
            if item["$"] == "stream":
                return read_stream(check(folder, record, item["file"]))
            if item["$"] != "pickle":
                from fasthep_smk.flow import references

                return references.from_plain(item)
            if not item["member"].endswith(pickles.MEMBER):  # which a worker's are not checked of
                raise ValueError(f"{item['member']} is not a pickle")
            return pickle.loads(archive().read(item["member"]))

        try:
            return {key: from_plain(entries[key]["value"], leaf=leaf) for key in keys}
        except (Damaged, MemoryError, OSError):
            raise
        except Exception as error:  # a pickle may raise anything, and so what a worker has made up
            raise corrupt(folder / RECORD, f"cannot be read: {error}") from error


class _Writer:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[str] = []
        self._archive: zipfile.ZipFile | None = None

    def entry(self, product: Product) -> ProductEntry:
        """Write one product; return its description."""
        key = f"{product.node}.{product.port}"
        stem = product.stream_file or f"{encode(key)}.arrow"

        def leaf(value: object) -> JsonObject:
            if isinstance(value, ak.Array):
                return self._stream(value, stem, product.live)
            from fasthep_smk.flow import references

            with contextlib.suppress(NotPlainError):
                if (reference := references.to_plain(value)) is not None:
                    return reference
            return self._pickle(value, key)

        try:
            plain = to_plain(product.value, leaf=leaf)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise Findings.one(
                "the product cannot be written to a file",
                key=key,
                value=f"{type(product.value).__qualname__} ({error})",
                expected="arrays, histograms, plain data or objects that can be pickled",
            ) from error
        return {
            "node": product.node,
            "port": product.port,
            "kind": product.kind,
            "type": type(product.value).__name__,
            "live": None if product.live is None else list(product.live),
            "value": plain,
        }

    def adopt(self, archive: Path, entries: Iterable[ProductEntry]) -> list[ProductEntry]:
        """Copy what another archive holds of some products, under the same names."""
        adopted = [entry.copy() for entry in entries]
        stored = [item for entry in adopted for item in hard_links.stored_in(entry["value"])]
        members = {name for kind, name in stored if kind == "pickle"}
        if members:
            with zipfile.ZipFile(archive) as source:
                for name in members.intersection(source.namelist()):
                    content = source.read(name)
                    pickles.sent(content, file=str(archive))
                    self.archive().writestr(name, content)
        return adopted

    def close(self) -> None:
        if self._archive is not None:
            self._archive.close()

    def _stream(self, array: ak.Array, name: str, live: tuple[str, ...] | None) -> JsonObject:
        name = _unused(name.removesuffix(".arrow"), ".arrow", self.files)
        write_stream(self.folder / name, array, live=live)
        self.files.append(name)
        return {"$": "stream", "file": name}

    def _pickle(self, value: object, key: str) -> JsonObject:
        archive = self.archive()
        name = _unused(encode(key), pickles.MEMBER, archive.namelist())
        archive.writestr(name, pickles.dump(value, key))
        return {"$": "pickle", "member": name}

    def archive(self) -> zipfile.ZipFile:
        """Return the archive, which may stay empty."""
        if self._archive is None:
            self._archive = zipfile.ZipFile(
                self.folder / ARCHIVE, "w", compression=zipfile.ZIP_DEFLATED, compresslevel=1
            )
            self.files.append(ARCHIVE)
        return self._archive


def _unused(stem: str, suffix: str, names: Iterable[str]) -> str:
    """Return a name that is not taken: a value may hold several arrays, one per dataset."""
    numbers = itertools.chain([""], (f".{number}" for number in itertools.count(1)))
    return next(name for number in numbers if (name := f"{stem}{number}{suffix}") not in names)
