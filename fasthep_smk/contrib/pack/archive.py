"""Writing the archive: a text for ``sh``, and two gzip archives.

The first one holds Python and its library, which make room for the second one, and unpack it. The
bytes depend on the entries only: sorted, with fixed times, owners and modes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fasthep_smk.contrib.pack.entries import Entry, text_entry
from fasthep_smk.contrib.pack.interpreter import node_text

#: Written last: without it, the first part is not complete.
LAST = "lib/zzz-last"
_HEADER = 16384
#: A higher level takes several times as long for a few per cent of the size.
_LEVEL = 4
#: 2001-01-01, as old as anything needs to be: zip files know no time before 1980.
_TIME = 978307200
_BLOCK = 4096


@dataclass(frozen=True)
class Parts:
    """What goes into an archive, for machines of a kind (``x86_64``)."""

    kind: str
    key: str
    machine: str
    first: tuple[Entry, ...]
    rest: tuple[Entry, ...]


def write_archive(parts: Parts, path: Path) -> None:
    """Write an archive.

    Raises:
        OSError: a file cannot be read, or there is no room.
    """
    start = text_entry("lib/fasthep-smk/start.py", node_text("start.py"))
    with path.open("w+b") as archive:
        archive.write(bytes(_HEADER))
        size = _write_part([*_in_order([*parts.first, start]), text_entry(LAST, "")], archive)
        end_of_first = archive.tell()
        size += _write_part(_in_order(parts.rest), archive)
        archive.seek(end_of_first)
        digest = hashlib.file_digest(archive, "sha256").hexdigest()
        values = {
            "KEY": parts.key, "MACHINE": parts.machine, "START": _HEADER,
            "FIRST": end_of_first - _HEADER, "SIZE": size, "DIGEST": digest,
        }  # fmt: skip
        text = node_text("header.sh")
        for name, value in values.items():
            text = text.replace(f"@{name}@", str(value))
        data = text.encode("utf-8")
        assert len(data) < _HEADER, "the header has a fixed size"
        archive.seek(0)
        archive.write(data.ljust(_HEADER, b"\n"))


def _write_part(entries: Iterable[Entry], archive: BinaryIO) -> int:
    """Write a gzip archive; return the bytes that its files take on a disk."""
    size = 0
    with (
        gzip.GzipFile("", "wb", _LEVEL, archive, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for entry in entries:
            info = tarfile.TarInfo(entry.target)
            info.mtime, info.mode = _TIME, 0o755 if entry.executable else 0o644
            data = b""
            if entry.link is not None:
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.link, 0o777
            else:
                data = entry.read()
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
            size += -(-len(data) // _BLOCK) * _BLOCK
    return size


def _in_order(entries: Iterable[Entry]) -> list[Entry]:
    unique = {entry.target: entry for entry in reversed(list(entries))}
    return sorted(unique.values(), key=lambda entry: os.fsencode(entry.target))
