"""How large the event streams between jobs are, as files and in memory."""

from __future__ import annotations

from pathlib import Path

import awkward as ak

from fasthep_smk.storage import products

__all__ = ["sizes"]


def sizes(build: Path) -> tuple[int, int, int]:
    """Return the bytes of all streams of a build folder, on disk and read back, and how many."""
    on_disk = in_memory = count = 0
    for path in (build / "smk" / "work").rglob("record.json"):
        streams = list(path.parent.glob("*.arrow"))
        if not streams:
            continue
        on_disk += sum(item.stat().st_size for item in streams)
        count += len(streams)
        values = products.load(path.parent).values()
        in_memory += sum(value.nbytes for value in values if isinstance(value, ak.Array))
    return on_disk, in_memory, count
