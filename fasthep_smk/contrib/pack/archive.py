"""Writing the archive: a text for ``sh``, a small gzip archive, and the rest in zstd frames.

The first part holds all that is needed to unpack the second one: Python, its library and a
decompressor. The bytes depend on the entries only: sorted, with fixed times, owners and modes, and
compressed in pieces of a fixed size, however many threads do it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import cramjam

from fasthep_smk.contrib.pack.entries import Entry, text_entry
from fasthep_smk.contrib.pack.interpreter import node_text

MANIFEST = "lib/fasthep-smk/manifest.json"
#: Written last: without it, the first part is not complete.
LAST = "lib/zzz-last"
_HEADER = 16384
_PIECE = 8 * 1024 * 1024
_LEVEL = 5
#: 2001-01-01, as old as anything needs to be: zip files know no time before 1980.
_TIME = 978307200
#: A frame that decompressors skip; ours holds the length of the one behind it.
_SKIPPED = 0x184D2A50.to_bytes(4, "little") + (4).to_bytes(4, "little")
_BLOCK = 4096


@dataclass(frozen=True)
class Parts:
    """What goes into an archive. ``after`` are commands that run in the unpacked folder."""

    kind: str
    key: str
    machine: str
    first: tuple[Entry, ...]
    rest: tuple[Entry, ...]
    after: tuple[tuple[str, ...], ...] = ()


def write_archive(parts: Parts, path: Path) -> None:
    """Write an archive.

    Raises:
        OSError: a file cannot be read, or there is no room.
    """
    with path.with_name(f"{path.name}.rest").open("w+b") as payload:
        try:
            rest = _write_frames(parts.rest, payload) if parts.rest else _Sizes()
            first = _first(parts, rest)
            with path.open("wb") as archive:
                archive.write(_header(parts, len(first)))
                archive.write(first)
                payload.seek(0)
                shutil.copyfileobj(payload, archive, 1 << 20)
        finally:
            Path(payload.name).unlink()


@dataclass
class _Sizes:
    """Of the second part: its bytes in the archive and on a disk, and its checksum."""

    packed: int = 0
    installed: int = 0
    sha256: str = ""


def _first(parts: Parts, rest: _Sizes) -> bytes:
    installed = rest.installed + sum(_blocks(len(entry.read())) for entry in parts.first)
    manifest = {
        "type": parts.kind,
        "key": parts.key,
        "installed": installed,
        "payload": {"size": rest.packed, "sha256": rest.sha256} if rest.packed else None,
        "after": parts.after,
    }
    entries = [
        *parts.first,
        text_entry("lib/fasthep-smk/start.py", node_text("start.py")),
        text_entry(MANIFEST, json.dumps(manifest, indent=1) + "\n"),
    ]
    stream = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=stream, mode="wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for entry in [*_in_order(entries), text_entry(LAST, "")]:
            _add(tar, entry)
    return stream.getvalue()


def _header(parts: Parts, first: int) -> bytes:
    room = sum(_blocks(len(entry.read())) for entry in parts.first) // 1024 + 1024
    values = {
        "KEY": parts.key, "TYPE": parts.kind, "MACHINE": parts.machine,
        "START": str(_HEADER), "FIRST": str(first), "ROOM": str(room),
    }  # fmt: skip
    text = node_text("header.sh")
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    data = text.encode("utf-8")
    assert len(data) < _HEADER, "the header has a fixed size"
    return data + b"\n" * (_HEADER - len(data))


def _write_frames(entries: Iterable[Entry], target: BinaryIO) -> _Sizes:
    digest = hashlib.sha256()
    sizes = _Sizes()
    pieces = _Pieces()

    def put(future: Future[cramjam.Buffer]) -> None:
        frame = bytes(future.result())
        data = _SKIPPED + len(frame).to_bytes(4, "little") + frame
        digest.update(data)
        target.write(data)
        sizes.packed += len(data)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        waiting: deque[Future[cramjam.Buffer]] = deque()
        with tarfile.open(fileobj=pieces, mode="w|", format=tarfile.GNU_FORMAT) as tar:
            for entry in _in_order(entries):
                sizes.installed += _blocks(_add(tar, entry))
                for piece in pieces.full():
                    waiting.append(pool.submit(cramjam.zstd.compress, piece, level=_LEVEL))
                    while len(waiting) > 4:
                        put(waiting.popleft())
        for piece in pieces.full(rest=True):
            waiting.append(pool.submit(cramjam.zstd.compress, piece, level=_LEVEL))
        for future in waiting:
            put(future)
    sizes.sha256 = digest.hexdigest()
    return sizes


class _Pieces(io.RawIOBase):
    """What is written to this comes out in pieces of one size."""

    def __init__(self) -> None:
        super().__init__()
        self._buffer = bytearray()

    def writable(self) -> bool:
        """Tell that it can be written to."""
        return True

    def write(self, data: Any) -> int:
        """Take more bytes."""
        self._buffer += data
        return len(data)

    def full(self, *, rest: bool = False) -> Iterator[bytes]:
        """Yield the full pieces, and with ``rest`` the last one too."""
        while len(self._buffer) >= _PIECE or (rest and self._buffer):
            yield bytes(self._buffer[:_PIECE])
            del self._buffer[:_PIECE]


def _in_order(entries: Iterable[Entry]) -> list[Entry]:
    unique = {entry.target: entry for entry in reversed(list(entries))}
    return sorted(unique.values(), key=lambda entry: os.fsencode(entry.target))


def _add(tar: tarfile.TarFile, entry: Entry) -> int:
    """Add an entry; return its size."""
    info = tarfile.TarInfo(entry.target)
    info.mtime = _TIME
    info.mode = 0o755 if entry.executable else 0o644
    if entry.link is not None:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.link, 0o777
        tar.addfile(info)
        return 0
    data = entry.read()
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
    return len(data)


def _blocks(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
