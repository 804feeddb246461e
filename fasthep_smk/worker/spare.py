"""Event streams that a job keeps though nobody has asked for them: for a rerun of a part of it.

Whether a stream is worth it is known only when it is there: its columns must be small against
what they cost. A spare stream is never waited for: it is not synced to the disk, and what goes
wrong with it is no failure of the job. Whoever reads one checks it, and can do without it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import awkward as ak

from fasthep_smk import files
from fasthep_smk.sharing import Shared
from fasthep_smk.streams import select_columns, write_stream
from fasthep_smk.worker.entry import Job
from fasthep_smk.worker.limits import MemoryLimit, TimeLimit, peak_memory

__all__ = ["BYTES_PER_SECOND", "keep", "room_on"]

#: Bytes in memory that are worth a second of CPU. Writing them takes 2 to 3 ms per MB, so that
#: spare streams cost a job at most some 5 % of its time.
BYTES_PER_SECOND = 20_000_000
#: One job's spare streams take at most this share of what is free on the disk, and leave a tenth
#: of the disk free, or this many bytes if that is less.
_SHARE = 100
_LEFT = 100 * 1000**3
#: A column takes at least this many bytes per event, a flag.
_LEAST = 1


def keep(job: Job, made: Mapping[tuple[str, str], Any], cpu: float) -> list[Shared]:
    """Write the spare streams that are worth it, the smallest first.

    ``cpu`` are the seconds of CPU that it took to make them.
    """
    budget = min(int(cpu * BYTES_PER_SECOND), room_on(job.folder), _room_in_memory(job))
    found = []
    for spare in job.spares:
        array = made.get((spare["node"], spare["port"]))
        if isinstance(array, ak.Array) and not (job.folder / spare["file"]).exists():
            packed = _packed(array, spare["live"], budget)
            if packed is not None:
                found.append((packed.nbytes, spare, packed))
    kept = []
    for size, spare, packed in sorted(found, key=lambda one: one[0]):
        budget -= size
        if budget < 0:
            break
        one = _write(job.folder, spare, packed, type(made[spare["node"], spare["port"]]).__name__)
        if one is None:
            break
        kept.append(one)
    return kept


def _room_in_memory(job: Job) -> int:
    """Return how large spare streams may be for the job to stay within its memory.

    They are packed, turned into Arrow's form and compressed.
    """
    asked = job.sent.asked.get("memory")
    return sys.maxsize if asked is None else max(0, (int(asked) - peak_memory()) // 4)


def room_on(folder: Path) -> int:
    """Return how many bytes a job may take of a disk for what it could do without."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return 0
    free, size = status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
    return max(0, min(free // _SHARE, free - min(size // 10, _LEFT)))


def _packed(array: Any, live: list[str] | None, budget: int) -> Any:
    """Return the live columns with nothing around them; ``None`` if they are too large."""
    fields = select_columns(array.fields, live)
    if len(array) * len(fields) * _LEAST > budget:
        return None
    # Before it is packed, a selection is an index into all events.
    packed = ak.to_packed(ak.to_backend(array, "cpu")[fields])
    return packed if packed.nbytes <= budget else None


def _write(folder: Path, spare: Mapping[str, Any], array: Any, kind: str) -> Shared | None:
    path = folder / spare["file"]
    try:
        meta = write_stream(path, array, live=spare["live"])
        described = files.described(path)
    except Exception as error:  # the disk is full, or it holds what cannot be written
        path.unlink(missing_ok=True)
        if isinstance(error, MemoryLimit | TimeLimit):
            raise
        print(f"{path.name} is not kept: {error}", file=sys.stderr)
        return None
    entry = {
        "node": spare["node"],
        "port": spare["port"],
        "kind": "event_stream",
        "type": kind,
        "live": spare["live"],
        "value": {"$": "stream", "file": path.name, "meta": meta},
        "spare": True,
    }
    return entry, {path.name: described}
