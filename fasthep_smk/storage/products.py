"""What jobs hand to each other, as files: exact and checksummed.

A job's products lie in one folder: an ``.arrow`` file for each event stream, ``products.zip`` for
everything else, and ``record.json``, which is written last, when the others are on disk, and
describes them: the structure of each value, and size and SHA-256 of every file; it begins with a
checksum of itself. Histograms are stored in the UHI serialization
(https://uhi.readthedocs.io/en/latest/serialization.html) with their raw arrays, plain data and
artifact references as JSON. Only a value of a type that none of these can hold exactly (an object
of a user's own class) is pickled, and plainly unpickled: the folder is this user's own. Where a
worker's files are accepted, their pickles are checked before (:mod:`fasthep_smk.storage.pickles`).
"""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import awkward as ak
import hist
import uhi.io.zip as uhi_zip
from boost_histogram.serialization import from_uhi, to_uhi

from fasthep_smk.flow.shapes import Key
from fasthep_smk.storage import pickles
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
    writer.close()
    for name in declared:
        if not (folder / name).exists():
            (folder / name).touch()
            writer.files.append(name)
    files.sync_all(folder / name for name in writer.files)
    files.sync(folder)
    described = {name: files.described(folder / name) for name in writer.files}
    return {"format": FORMAT, "products": entries, "files": described}


def verify(folder: Path) -> None:
    """Check the record of a finished job and the files that it describes, but for cached streams.

    Raises:
        Damaged: a file is missing, truncated or altered.
    """
    described = read_record(folder)["files"]
    reader = _Reader(folder, described)
    for name in described:
        if not name.endswith(CACHED):
            reader.check(name)


def check(folder: Path, record: Saved, name: str) -> None:
    """Check one file of a finished job.

    Raises:
        Damaged: it is missing, truncated or altered.
    """
    _Reader(folder, record["files"]).check(name)


def load(folder: Path, wanted: Iterable[Key] | None = None) -> dict[Key, object]:
    """Return the products of a finished job, those in ``wanted`` or all, checksums verified.

    Raises:
        Damaged: a file is missing, truncated or altered, or does not hold what is wanted.
    """
    record = read_record(folder)
    reader = _Reader(folder, record["files"])
    keys = None if wanted is None else set(wanted)
    entries = {(entry["node"], entry["port"]): entry for entry in record["products"]}
    values = {
        key: reader.value(entry) for key, entry in entries.items() if keys is None or key in keys
    }
    reader.close()
    if keys is not None and keys - set(values):
        missing = ", ".join(f"{node}.{port}" for node, port in sorted(keys - set(values)))
        raise corrupt(folder / RECORD, f"does not hold {missing}")
    return values


class _Writer:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[str] = []
        self._members = 0
        self._archive: zipfile.ZipFile | None = None

    def entry(self, product: Product) -> ProductEntry:
        """Write one product; return its description."""
        key = f"{product.node}.{product.port}"
        stem = product.stream_file or f"{encode(key)}.arrow"

        def leaf(value: object) -> JsonObject:
            if isinstance(value, ak.Array):
                return self._stream(value, stem, product.live)
            if isinstance(value, hist.BaseHist):
                return self._histogram(value, key)
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
        numbers = {int(number) for number in re.findall(r'"member": "p(\d+)', json.dumps(adopted))}
        if not numbers:
            return adopted
        with zipfile.ZipFile(archive) as source:
            for item in source.infolist():
                match = re.match(r"p(\d+)[_.]", item.filename)
                if match is not None and int(match[1]) in numbers:
                    content = source.read(item)
                    if item.filename.endswith(pickles.MEMBER):
                        pickles.sent(content, file=str(archive))
                    self._open().writestr(item, content)
        self._members = max(numbers)
        return adopted

    def close(self) -> None:
        if self._archive is not None:
            self._archive.close()

    def _stream(self, array: ak.Array, name: str, live: tuple[str, ...] | None) -> JsonObject:
        number = 0
        stem = name.removesuffix(".arrow")
        while name in self.files:  # a value may hold several arrays, one per dataset
            number += 1
            name = f"{stem}.{number}.arrow"
        meta = write_stream(self.folder / name, array, live=live)
        self.files.append(name)
        return {"$": "stream", "file": name, "meta": meta}

    def _histogram(self, histogram: hist.BaseHist, key: str) -> JsonObject:
        try:
            content = to_uhi(histogram)
            member = self._member()
            buffer = io.BytesIO()
            with zipfile.ZipFile(buffer, "w") as trial:
                uhi_zip.write(trial, member, content)
            with zipfile.ZipFile(buffer) as trial:
                again = type(histogram)(from_uhi(uhi_zip.read(trial, member)))
            if not same_histogram(again, histogram):
                return self._pickle(histogram, key)
        except (TypeError, ValueError, KeyError, AttributeError):
            return self._pickle(histogram, key)
        uhi_zip.write(self._open(), member, content)
        return {"$": "histogram", "member": member, "named": isinstance(histogram, hist.NamedHist)}

    def _pickle(self, value: object, key: str) -> JsonObject:
        member = f"{self._member()}{pickles.MEMBER}"
        self._open().writestr(member, pickles.dump(value, key))
        return {"$": "pickle", "member": member}

    def _member(self) -> str:
        self._members += 1
        return f"p{self._members}"

    def _open(self) -> zipfile.ZipFile:
        if self._archive is None:
            self._archive = zipfile.ZipFile(
                self.folder / ARCHIVE, "w", compression=zipfile.ZIP_DEFLATED, compresslevel=1
            )
            self.files.append(ARCHIVE)
        return self._archive


class _Reader:
    def __init__(self, folder: Path, described: Mapping[str, files.FileFacts]) -> None:
        self.folder = folder
        self._described = described
        self._verified: set[str] = set()
        self._archive: zipfile.ZipFile | None = None

    def value(self, entry: ProductEntry) -> object:
        try:
            return from_plain(entry["value"], leaf=self._leaf)
        except (Damaged, MemoryError, OSError):
            raise
        except Exception as error:  # a pickle may raise anything, and so what a worker has made up
            raise corrupt(self.folder / RECORD, f"cannot be read: {error}") from error

    def close(self) -> None:
        if self._archive is not None:
            self._archive.close()

    def _leaf(self, item: JsonObject) -> object:
        kind = item["$"]
        if kind == "stream":
            return read_stream(self.check(item["file"]), item["meta"])
        if kind == "histogram":
            cls = hist.NamedHist if item.get("named") else hist.Hist
            return cls(from_uhi(uhi_zip.read(self._open(), item["member"])))
        if kind == "pickle":
            return self._pickle(item["member"])
        from fasthep_smk.flow import references

        return references.from_plain(item)

    def _pickle(self, member: str) -> object:
        if not member.endswith(pickles.MEMBER):  # it was not looked at when it came from a worker
            raise ValueError(f"{member} is not a pickle")
        return pickle.loads(self._open().read(member))

    def _open(self) -> zipfile.ZipFile:
        if self._archive is None:
            self._archive = zipfile.ZipFile(self.check(ARCHIVE))
        return self._archive

    def check(self, name: str) -> Path:
        """Return the path of a file that is what was written."""
        path = self.folder / name
        if name in self._verified:
            return path
        expected = self._described.get(name)
        if expected is None:
            raise corrupt(path, "is not in the record of its job")
        if problem := difference(path, expected, content=True):
            raise corrupt(path, problem)
        self._verified.add(name)
        return path


def same_histogram(left: hist.BaseHist, right: hist.BaseHist) -> bool:
    """Whether two histograms agree in every bit, axis, trait and annotation."""
    return bool(
        type(left) is type(right)
        and left.__dict__ == right.__dict__
        and len(left.axes) == len(right.axes)
        and all(
            axis == other and axis.traits == other.traits and axis.__dict__ == other.__dict__
            for axis, other in zip(left.axes, right.axes, strict=True)
        )
        and left.storage_type is right.storage_type
        and left.view(flow=True).tobytes() == right.view(flow=True).tobytes()
    )
