"""Event streams that a job keeps though no job waits for them: for a rerun of a part of it.

Whether a stream is worth it is known only when it is there: its columns must be small against
what they cost. A cached stream is never waited for: it is not synced to the disk, and what goes
wrong with it is no failure of the job. A reader checks it, and can do without it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import awkward as ak

from fasthep_smk.storage.hard_links import Shared
from fasthep_smk.storage.record import ProductEntry
from fasthep_smk.storage.streams import select_columns, write_stream
from fasthep_smk.storage.task_table import Kept
from fasthep_smk.util import files
from fasthep_smk.worker.job import WorkerJob
from fasthep_smk.worker.limits import MemoryLimit, TimeLimit, peak_memory

#: Bytes in memory that are worth a second of CPU. Writing and checksumming them takes 1.1 ms of
#: CPU per MB as they are and 4.3 ms compressed, so that cached streams cost a job some 5 %.
BYTES_PER_SECOND = 50_000_000
COMPRESSED_PER_SECOND = 12_000_000
#: The jobs of a rule together take at most this share of what is free on the disk for their cached
#: streams, and leave a tenth of the disk free, or this many bytes if that is less.
_SHARE = 10
_LEFT = 100 * 1000**3


def keep(job: WorkerJob, values: Mapping[tuple[str, str], object], cpu: float) -> list[Shared]:
    """Write the cached streams that are worth it, the smallest first.

    ``cpu`` are the seconds of CPU that it took to make them.
    """
    room = min(room_on(job.folder, job.table.number_of_jobs), _room_in_memory(job))
    budget = min(int(cpu * BYTES_PER_SECOND), room)
    candidates = []
    for stream in job.cached:
        array = values.get(stream.key)
        if isinstance(array, ak.Array) and not (job.folder / str(stream.file)).exists():
            packed = _packed(array, stream.live, budget)
            if packed is not None:
                candidates.append((packed.nbytes, stream, packed))
    kept, written = [], 0
    for size, stream, packed in sorted(candidates, key=lambda candidate: candidate[0]):
        written += size
        if written > budget:
            break
        shared = _write(job.folder, stream, packed, written <= cpu * COMPRESSED_PER_SECOND)
        if shared is None:
            break
        kept.append(shared)
    return kept


def _room_in_memory(job: WorkerJob) -> int:
    """Return how large cached streams may be for the job to stay within its memory.

    They are packed, written and compressed.
    """
    asked = job.sent.asked.get("memory")
    return sys.maxsize if asked is None else max(0, (int(asked) - peak_memory()) // 4)


def room_on(folder: Path, jobs: int) -> int:
    """Return how many bytes of a disk each of some jobs may take for what it could do without."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return 0
    free, size = status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
    return max(0, min(free // (_SHARE * jobs), free - min(size // 10, _LEFT)))


def _packed(array: ak.Array, live: Sequence[str] | None, budget: int) -> ak.Array | None:
    """Return the live columns with nothing around them; ``None`` if they are too large."""
    fields = select_columns(array.fields, live)
    if _estimate(array, fields) > 2 * budget:
        return None
    packed = ak.to_packed(ak.to_backend(array, "cpu")[fields])
    return packed if packed.nbytes <= budget else None


def _estimate(array: ak.Array, fields: list[str]) -> float:
    """Return about how many bytes columns take, without making them.

    Before it is packed, a selection is an index into all events.
    """
    layout = array.layout
    if isinstance(layout, ak.contents.IndexedArray):
        share = len(array) / max(len(layout.content), 1)
        return share * float(ak.Array(layout.content)[fields].nbytes)
    return float(array[fields].nbytes)


def _write(folder: Path, stream: Kept, array: ak.Array, compress: bool) -> Shared | None:
    path = folder / str(stream.file)
    try:
        write_stream(path, array, live=stream.live, compress=compress)
        described = files.described(path)
    except Exception as error:  # the disk is full, or it holds what cannot be written
        path.unlink(missing_ok=True)
        if isinstance(error, MemoryLimit | TimeLimit):
            raise
        print(f"{path.name} is not kept: {error}", file=sys.stderr)
        return None
    entry: ProductEntry = {
        "node": stream.node,
        "port": stream.port,
        "kind": "event_stream",
        "type": type(array).__name__,
        "live": None if stream.live is None else list(stream.live),
        "value": {"$": "stream", "file": path.name},
        "spare": True,
    }
    return entry, {path.name: described}
