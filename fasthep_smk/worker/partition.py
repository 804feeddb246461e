"""A partition's job: read what it needs, run the nodes, write what outlives it."""

from __future__ import annotations

import shutil
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
from fasthep_smk.storage.hard_links import Shared
from fasthep_smk.storage.products import Product
from fasthep_smk.storage.record import Content, Saved, content_of
from fasthep_smk.storage.streams import register_behaviours
from fasthep_smk.storage.task_table import Read
from fasthep_smk.util.masking import masked
from fasthep_smk.worker import cached_streams
from fasthep_smk.worker.job import WorkerJob, staging
from fasthep_smk.worker.outside import note_outside
from fasthep_smk.worker.partial import NotAdoptable, TakenOver, run_part

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Plan, Store


def run_partition(job: WorkerJob) -> Content:
    """Run a task for one partition, or the part of it that has to; return the record's content."""
    plan = plan_files.read_slim(job.plan_file)
    register_behaviours()
    with staging(job) as folder:
        content = _part(job, plan, folder) if job.entry.part else None
        return content or _whole(job, plan, folder)


def _whole(job: WorkerJob, plan: Plan, folder: Path) -> Content:
    inputs = _read(job, job.entry.reads)
    session = Session(plan, folder)
    started = time.process_time()
    store, boundary = session.partition(
        job.entry.nodes, job.entry.partition, inputs, job.entry.file_digest, job.kept
    )
    cpu = time.process_time() - started
    recorded = session.record(partition=job.entry.partition, boundary=boundary)
    run = run_records.facts_of(recorded)
    content = _saved(job, plan, store, str(folder))
    if run_records.is_quiet([run]):  # otherwise it is never told in parts
        _add(content, cached_streams.keep(job, store, cpu))
    return content_of(content, relocate([run], str(folder), str(job.build)))


def _part(job: WorkerJob, plan: Plan, folder: Path) -> Content | None:
    """Run what has to; return ``None`` if that is everything."""
    part = job.entry.part
    assert part is not None
    started = time.process_time()
    try:
        taken, store, run = run_part(job, plan, folder, _read(job, part.reads))
        cpu = time.process_time() - started
        content = _saved(job, plan, {**taken.values, **store}, str(folder), taken)
    except NotAdoptable as error:
        shutil.rmtree(job.folder, ignore_errors=True)  # nothing may be written into shared files
        print(f"the whole job runs, not a part: {masked(str(error))}", file=sys.stderr)
        return None
    kept = cached_streams.keep(job, store, cpu)
    made_anew = {(entry["node"], entry["port"]) for entry, _ in kept}
    _add(content, [*kept, *taken.cached(made_anew)])
    job.results.extend(taken.results)
    job.outside.update(taken.outside)
    new_record = content_of(content, relocate([run], str(folder), str(job.build)))
    new_record["ran"], new_record["adopted"] = list(part.nodes), taken.jobs
    return new_record


def run_side_products(job: WorkerJob) -> Content:
    """Run the global side products of a variation; return the content of the record."""
    plan = plan_files.read_slim(job.plan_file)
    with staging(job) as folder:
        session = Session(plan, folder)
        store, boundary = session.side_products(job.entry.nodes)
        content = _saved(job, plan, store, str(folder))
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


def _saved(
    job: WorkerJob, plan: Plan, store: Store, stage: str, taken: TakenOver | None = None
) -> Saved:
    """Write the job's products; those of earlier jobs that are files of their own are shared."""
    note_outside(job, plan, store)
    kept = []
    for keep in job.table.keeps:
        key = keep.key
        if key not in store:
            continue  # the node does not apply to this dataset
        kept.append(
            Product(
                node=key[0],
                port=key[1],
                kind=str(plan.get_node(key[0]).outputs[key[1]]),
                value=relocate(store[key], stage, str(job.build)),
                stream_file=keep.file,
                live=keep.live,
            )
        )
    shared = taken.shared() if taken is not None else []
    names = {name for _, described in shared for name in described}
    if names.intersection(product.stream_file or "" for product in kept):
        raise NotAdoptable("two event streams have the same file name")
    declared = [name for name in job.table.outputs if name != products.RECORD]
    adopted = taken.adopted if taken is not None else None
    content = products.save(job.folder, kept, declared=declared, adopted=adopted)
    _add(content, shared)
    order = [keep.key for keep in job.table.keeps]
    content["products"].sort(key=lambda entry: order.index((entry["node"], entry["port"])))
    return content


def _add(content: Saved, more: Iterable[Shared]) -> None:
    for entry, described in more:
        content["products"].append(entry)
        content["files"] |= described
