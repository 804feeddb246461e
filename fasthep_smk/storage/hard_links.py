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
    if isinstance(value, list):
        for item in value:
            yield from files_of(item)
    elif isinstance(value, dict):
        if value.get("$") == "stream":
            yield str(value["file"])
        elif "member" in value and "$" in value:
            yield ARCHIVE
        for item in value.values():
            yield from files_of(item)


def share(source: Path, record: Saved, key: Key, goal: Path, *, name: str | None = None) -> Shared:
    """Let ``goal`` have a product of the job in ``source``; its only file is called ``name`` there.

    The content is not looked at: who reads it checks it.

    Raises:
        ValueError: a file is not as long as it was, or it holds several products.
        OSError, KeyError: there is no such file or product.
    """
    entry = entries(record)[key].copy()
    names = list(dict.fromkeys(files_of(entry["value"])))
    if ARCHIVE in names:
        raise ValueError(f"{key} shares its file with other products")
    renamed = {}
    value = entry["value"]
    if name is not None and isinstance(value, dict) and names == [value.get("file")]:
        renamed = {names[0]: name}
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
