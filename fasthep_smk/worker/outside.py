"""Files that a job has written outside the build folder, under absolute paths."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.flow.reads import is_published
from fasthep_smk.util import files
from fasthep_smk.worker.job import WorkerJob
from fasthep_smk.worker.refused import SENT

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Plan, Store


def note_outside(job: WorkerJob, plan: Plan, store: Store) -> None:
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
