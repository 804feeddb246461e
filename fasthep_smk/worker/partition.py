"""A partition's job: read what it needs, run the nodes, write what outlives it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fasthep_smk import products
from fasthep_smk.flow import documents
from fasthep_smk.flow.execute import Session
from fasthep_smk.flow.summary import relocate
from fasthep_smk.products import Product
from fasthep_smk.streams import register_behaviours
from fasthep_smk.worker.entry import Job, staging

__all__ = ["run_partition", "run_side_products"]


def run_partition(job: Job) -> dict[str, Any]:
    """Run a task for one partition; return the content of its record."""
    plan = documents.read_slim(job.plan_file)
    register_behaviours()
    given: dict[tuple[str, str], Any] = {}
    for read in job.entry["reads"]:
        wanted = [(node, port) for node, port in read["keys"]]
        if wanted:
            # A producer that is inactive for this dataset made nothing: not among the reads.
            given.update(products.load(job.build / read["folder"], wanted))
    with staging(job) as folder:
        session = Session(plan, folder)
        made, boundary = session.partition(job.entry["nodes"], job.entry["partition"], given)
        run = session.record(partition=job.entry["partition"], boundary=boundary)
        content = _saved(job, plan, made, str(folder))
        runs = relocate([asdict(run)], str(folder), str(job.build))
    return {**content, "runs": runs}


def run_side_products(job: Job) -> dict[str, Any]:
    """Run the global side products of a variation; return the content of the record."""
    plan = documents.read_slim(job.plan_file)
    with staging(job) as folder:
        session = Session(plan, folder)
        made = session.side_products(job.entry["nodes"])
        content = _saved(job, plan, made, str(folder))
        runs = relocate([asdict(session.record())], str(folder), str(job.build))
    return {**content, "runs": runs}


def _saved(job: Job, plan: Any, made: dict[tuple[str, str], Any], stage: str) -> dict[str, Any]:
    kept = []
    for keep in job.keeps:
        key = (keep["node"], keep["port"])
        if key not in made:
            continue  # the node does not apply to this dataset
        live = keep["live"]
        kept.append(
            Product(
                node=key[0],
                port=key[1],
                kind=str(plan.get_node(key[0]).outputs[key[1]]),
                value=relocate(made[key], stage, str(job.build)),
                stream_file=keep["file"],
                live=None if live is None else tuple(live),
            )
        )
    declared = [name for name in job.outputs if name != products.RECORD]
    return products.save(job.folder, kept, declared=declared)
