"""Which plots, tables and files at the end of a run need not be made again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fasthep_smk.plan.rules import Job
from fasthep_smk.storage import hard_links
from fasthep_smk.storage.damage import difference
from fasthep_smk.storage.record import Record
from fasthep_smk.storage.task_table import Adopted, Part


def part_of_end(job: Job, finished: Iterable[tuple[Path, Record]], build: Path) -> Part | None:
    """Return what of the job that ends a run has to run; ``None`` if all of it.

    ``finished`` are folders of finished jobs with their records. All that is adopted comes from one
    of them: the last one has what those before it had.
    """
    best: tuple[int, float] = (0, 0.0)
    chosen: tuple[Path, Record, list[str]] | None = None
    for folder, record in finished:
        if record["rule"] != job.rule or not record.get("values"):
            continue
        values = job.values.items()
        nodes = [node for node, value in values if _is_valid(record, node, value, build)]
        rank = (len(nodes), float(record["ended"]))
        if nodes and rank > best:
            best, chosen = rank, (folder, record, nodes)
    if chosen is None:
        return None
    folder, record, nodes = chosen
    adopted = Adopted(
        folder=str(folder.relative_to(build)),
        signature=str(record["signature"]),
        nodes=tuple(nodes),
        keys=(),
        streams=tuple(key for key in hard_links.entries(record) if key[0] in nodes),
        cached=(),
        results=tuple(name for node in nodes for name in record["values"][node]["files"]),
    )
    return Part(tuple(node for node in job.nodes if node not in nodes), (), (adopted,))


def _is_valid(record: Record, node: str, value: str, build: Path) -> bool:
    """Whether a node's files are there and as long as they were written."""
    written = record["values"].get(node)
    if written is None or written["value"] != value:
        return False
    results = record["results"]
    return not any(difference(build / name, results[name]) for name in written["files"])
