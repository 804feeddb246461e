"""A partition's job: read what it needs, run the nodes, write what outlives it.

If only a part of its nodes has to run, it adopts what the others made before. That is checked when
it is read. If anything is not as the translation has found it, the job runs as a whole.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

import awkward as ak

from fasthep_smk.flow import plan_files
from fasthep_smk.flow.runtime import Session
from fasthep_smk.flow.shapes import Key
from fasthep_smk.flow.summary import relocate
from fasthep_smk.storage import products, run_records
from fasthep_smk.storage.record import Content, RunFacts, content_of
from fasthep_smk.storage.streams import register_behaviours
from fasthep_smk.storage.taken_over import TakenOver
from fasthep_smk.storage.task_table import Part, Read
from fasthep_smk.util import files
from fasthep_smk.util.masking import masked
from fasthep_smk.worker import cached_streams
from fasthep_smk.worker.causes import cause_of
from fasthep_smk.worker.job import WorkerJob, staging
from fasthep_smk.worker.limits import MemoryLimit, TimeLimit
from fasthep_smk.worker.made import save

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Plan, Store


def run_partition(job: WorkerJob) -> Content:
    """Run a task for one partition, or the part of it that has to; return the record's content."""
    plan = plan_files.read_slim(job.plan_file)
    register_behaviours()
    with staging(job) as folder:
        if job.entry.part is not None:
            try:
                return _run(job, plan, folder, job.entry.part)
            except Exception as error:
                if isinstance(cause_of(error), MemoryLimit | TimeLimit | MemoryError):
                    raise
                print(
                    f"the whole job runs, because it could not run in part: {masked(str(error))}",
                    file=sys.stderr,
                )
            files.remove(job.folder)  # nothing may be written into shared files
            for path in folder.iterdir():
                files.remove(path)
        return _run(job, plan, folder)


def _run(job: WorkerJob, plan: Plan, folder: Path, part: Part | None = None) -> Content:
    """Run all nodes of a job, or its ``part``.

    Raises:
        OSError, ValueError, KeyError, SmkError: what the part adopts is not as it was.
    """
    taken, nodes, reads = None, job.entry.nodes, job.entry.reads
    if part is not None:
        kept = (*job.table.keeps, *job.cached)
        taken = TakenOver(job.build, part.adopted, job.entry.partition, kept)
        taken.check()
        nodes, reads = part.nodes, part.reads
    inputs = {**_read(job, reads), **(taken.streams if taken else {})}
    session = Session(plan, folder)
    started = time.process_time()
    store, boundary = session.partition(
        nodes, job.entry.partition, inputs, job.entry.file_digest, job.kept
    )
    cpu = time.process_time() - started
    run = run_records.facts_of(session.record(partition=job.entry.partition, boundary=boundary))
    content = save(job, plan, store, folder, taken)
    if run_records.is_quiet([run]):  # otherwise it is never told in parts
        for entry, described in cached_streams.keep(job, store, cpu):
            content["products"].append(entry)
            content["files"] |= described
    if taken is not None:
        run = _merged(plan, [*taken.runs, run])
    new_record = content_of(content, relocate([run], str(folder), str(job.build)))
    if taken is not None:
        job.results.extend(taken.results)
        job.outside.update(taken.outside)
        new_record["ran"], new_record["adopted"] = list(nodes), taken.jobs
    return new_record


def _merged(plan: Plan, runs: list[RunFacts]) -> RunFacts:
    """Return what was recorded of a job's nodes as if all of them had run at once."""
    order = {node.id: number for number, node in enumerate(plan.nodes)}
    joined = runs[-1].copy()
    joined["boundary"] = sorted(
        (entry for run in runs for entry in run["boundary"]),
        key=lambda entry: order.get(entry["node"], len(order)),
    )
    joined["operations"] = sorted(
        (operation for run in runs for operation in run["operations"]),
        key=lambda operation: order.get(operation.get("node_id", ""), len(order)),
    )
    joined["warnings"] = [warning for run in runs for warning in run["warnings"]]
    return joined


def run_side_products(job: WorkerJob) -> Content:
    """Run the global side products of a variation; return the content of the record."""
    plan = plan_files.read_slim(job.plan_file)
    with staging(job) as folder:
        session = Session(plan, folder)
        store, boundary = session.side_products(job.entry.nodes)
        content = save(job, plan, store, folder)
        run = session.record(boundary=boundary)
        runs = relocate([run_records.facts_of(run)], str(folder), str(job.build))
    return content_of(content, runs)


def _read(job: WorkerJob, reads: Iterable[Read]) -> Store:
    """Return the products of other jobs."""
    store: Store = {}
    for read in reads:
        if read.keys:
            # A producer that is inactive for this dataset made nothing: not among the reads.
            store.update(_load(job, read))
    return store


#: The event streams that the job before in a bundle has read, by folder, record and products.
_read_before: dict[object, dict[Key, ak.Array]] = {}


def _load(job: WorkerJob, read: Read) -> Mapping[Key, object]:
    """Return the products of another job; those of the job before in a bundle are still there.

    Next to it are the other variations of the same partition, which read the same streams. What
    runs after another job in its process is FAST-HEP's own (:mod:`fasthep_smk.worker.series`),
    which changes no array in place.
    """
    folder = job.build / read.folder
    record = folder / products.RECORD
    if job.bundle is None or not record.exists():
        return products.load(folder, read.keys)  # which says what is wrong
    status = record.stat()
    name = (folder, status.st_ino, status.st_mtime_ns, read.keys)
    if name not in _read_before:
        _read_before.clear()
        values = products.load(folder, read.keys)
        if not all(type(value) is ak.Array for value in values.values()):
            return values
        _read_before[name] = dict(values)
    return {key: copy(array) for key, array in _read_before[name].items()}
