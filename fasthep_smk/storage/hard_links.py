"""Products that two jobs' folders share: the files get a second name, nothing is copied."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from fasthep_smk.flow.shapes import Key
from fasthep_smk.storage.layout import ARCHIVE
from fasthep_smk.storage.record import ProductEntry, Saved
from fasthep_smk.util.files import FileFacts

#: An entry of a record's products, and its files with what describes them.
Shared = tuple[ProductEntry, dict[str, FileFacts]]


def entries(record: Saved) -> dict[Key, ProductEntry]:
    """Return the products of a record by their keys."""
    return {(entry["node"], entry["port"]): entry for entry in record["products"]}


def files_of(value: object) -> Iterator[str]:
    """Yield the files that hold a value: those of its event streams, the archive for the rest."""
    for kind, name in stored_in(value):
        yield name if kind == "stream" else ARCHIVE


def stored_in(value: object) -> Iterator[tuple[str, str]]:
    """Yield what of a value is not in the record: streams with their files, pickles with names."""
    if isinstance(value, list):
        for item in value:
            yield from stored_in(item)
    elif isinstance(value, dict):
        if "$" in value and (name := value.get("file") or value.get("member")):
            yield str(value["$"]), str(name)
        for item in value.values():
            yield from stored_in(item)


def share(source: Path, record: Saved, key: Key, goal: Path, *, name: str | None = None) -> Shared:
    """Let ``goal`` have a product of the job in ``source``; its only file is called ``name`` there.

    The content is not looked at: who reads it checks it.

    Raises:
        ValueError: a file is not as long as it was, or it holds several products.
        OSError, KeyError: there is no such file or product.
    """
    entry = entries(record)[key].copy()
    value, names = entry["value"], dict.fromkeys(files_of(entry["value"]))
    if ARCHIVE in names:
        raise ValueError(f"{key} shares its file with other products")
    renamed = {}
    if name is not None and isinstance(value, dict) and [*names] == [value.get("file")]:
        renamed = {value["file"]: name}
        entry["value"] = {**value, "file": name}
    described = {}
    for old in names:
        new = renamed.get(old, old)
        described[new] = link(source / old, goal / new, record["files"][old])
    return entry, described


def link(source: Path, goal: Path, facts: FileFacts) -> FileFacts:
    """Give a file a second name; return what describes it.

    Raises:
        ValueError: it is not as long as it was.
        OSError: there is no such file.
    """
    if source.stat().st_size != facts["size"]:
        raise ValueError(f"{source} is damaged")
    try:
        os.link(source, goal)
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError:  # a file system without hard links, or the disk of another folder
        shutil.copyfile(source, goal)
    return facts.copy()
