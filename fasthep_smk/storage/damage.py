"""Files that are not as the jobs left them that made them: gone, truncated, changed.

A record describes each file by its size and SHA-256. Sizes are compared at every start, which costs
a ``stat`` for each file; the content, which has to be read, only when somebody asks for it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fasthep_smk.storage.record import Record
from fasthep_smk.util import files

GONE = "is gone"


def difference(path: str | Path, facts: files.FileFacts, *, content: bool = False) -> str | None:
    """Return in words how a file differs from what describes it; ``None`` if it does not.

    With ``content`` it is read, and its checksum compared as well.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 (of many thousands; a path object takes longer)
        if status.st_size == facts["size"] and stat.S_ISREG(status.st_mode):
            changed = content and files.sha256_file(Path(path)) != facts["sha256"]
            return "has changed (its checksum differs)" if changed else None
    except (FileNotFoundError, NotADirectoryError):
        return GONE
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    if not stat.S_ISREG(status.st_mode):
        return "is a folder" if stat.S_ISDIR(status.st_mode) else "is not a regular file"
    if status.st_size > facts["size"]:
        return f"is too long ({status.st_size} instead of {facts['size']} bytes)"
    how = "truncated" if status.st_size else "empty"
    return f"is {how} ({status.st_size} of {facts['size']} bytes)"


def of_results(
    build: Path,
    records: Mapping[str, Record],
    *,
    content: bool = False,
    others: Callable[[], Iterable[Record]] = tuple,
) -> dict[str, dict[str, str]]:
    """Return the damaged files for the user, and how: by the folder of the job to make them again.

    ``records`` are those of finished jobs by their folders. Some files are written by several jobs,
    one after the other: they are right if any of these has left them so, ``others`` included, and
    otherwise belong to the last.
    """
    claims = [
        (name, folder, facts)
        for folder, record in records.items()
        for name, facts in record["results"].items()
    ]
    changes = _differences([(f"{build}/{name}", facts) for name, _, facts in claims], content)
    wrong: dict[str, dict[str, str]] = {}
    right = set()
    for (name, folder, _), how in zip(claims, changes, strict=True):
        if how is None:
            right.add(name)
        else:
            wrong.setdefault(name, {})[folder] = how
    if not wrong:
        return {}
    for record in others():
        for name, facts in record["results"].items():
            if name in wrong and difference(build / name, facts, content=content) is None:
                right.add(name)
    damaged: dict[str, dict[str, str]] = {}
    for name, by_folder in wrong.items():
        if name not in right:
            last = max(by_folder, key=lambda folder: float(records[folder].get("ended") or 0))
            damaged.setdefault(last, {})[name] = by_folder[last]
    return damaged


def of_products(
    build: Path, records: Mapping[str, Record], *, content: bool = False
) -> dict[str, str]:
    """Return which products of finished jobs are gone or damaged, and how, by their paths."""
    products = [
        (f"{folder}/{name}", facts)
        for folder, record in records.items()
        for name, facts in record["files"].items()
    ]
    changes = _differences([(f"{build}/{path}", facts) for path, facts in products], content)
    return {path: how for (path, _), how in zip(products, changes, strict=True) if how is not None}


def said(results: Mapping[str, str]) -> str:
    """Return what is wrong with results of one job, in short."""
    name, how = next(iter(results.items()))
    more = f", and {len(results) - 1} more of its results" if len(results) > 1 else ""
    return f"its result {name} {how}{more}"


def _differences(items: Sequence[tuple[str, files.FileFacts]], content: bool) -> list[str | None]:
    if not content:
        return [difference(path, facts) for path, facts in items]
    with ThreadPoolExecutor() as pool:  # hashing and reading do not hold the interpreter
        return list(pool.map(lambda item: difference(*item, content=True), items))
