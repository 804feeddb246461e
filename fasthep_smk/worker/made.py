"""What a job has made: products for other jobs, and files outside the build folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.flow.reads import is_published
from fasthep_smk.flow.summary import relocate
from fasthep_smk.storage import products
from fasthep_smk.storage.products import Product
from fasthep_smk.storage.record import Saved
from fasthep_smk.storage.taken_over import TakenOver
from fasthep_smk.util import files
from fasthep_smk.worker.job import WorkerJob
from fasthep_smk.worker.refused import SENT

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Plan, Store


def save(
    job: WorkerJob, plan: Plan, store: Store, folder: Path, taken: TakenOver | None = None
) -> Saved:
    """Write a job's products, with those that it has ``taken`` over; return what describes them.

    Of what the nodes of a partition make, only some outlives the job. Operations have written
    files to ``folder``.
    """
    _note_outside(job, plan, store)
    kept = {item.key: item for item in job.table.keeps}
    if job.table.scope in ("partition", "side"):  # a node may not apply to the dataset
        store = {key: store[key] for key in kept if key in store}
    made = [
        Product(
            *key,
            kind=str(plan.get_node(key[0]).outputs[key[1]]),
            value=relocate(value, str(folder), str(job.build)),
            stream_file=kept[key].file if key in kept else None,
            live=kept[key].live if key in kept else None,
        )
        for key, value in store.items()
    ]
    declared = [name for name in job.table.outputs if name != products.RECORD]
    if taken is not None:
        return taken.save(job.folder, made, declared)
    return products.save(job.folder, made, declared=declared)


def _note_outside(job: WorkerJob, plan: Plan, store: Store) -> None:
    """Note the files that FAST-HEP's writers and plots say they have written elsewhere.

    A user's own may write one file in several jobs. What a node that shares no files has written
    is not seen where records are read.
    """
    if os.environ.get(SENT):
        return
    for (node, _), value in store.items():
        impl = plan.get_node(node).impl
        if node not in job.entry.nodes or not is_published(plan.registry, "sinks", impl):
            continue
        parts = getattr(value, "parts", value)  # of a manifest, or of a report in several formats
        for made in parts if isinstance(parts, list | tuple) else [parts]:
            path = str(getattr(made, "uri", ""))
            if path.startswith("/") and job.build not in Path(path).parents:
                job.outside.setdefault(node, {})[path] = files.stamp(path)
