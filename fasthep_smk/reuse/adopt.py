"""Jobs of which others have made all products: they adopt these, and need not run."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from fasthep_smk.plan.rules import Job, Rule, made_of, output_files
from fasthep_smk.reuse.index import Index
from fasthep_smk.reuse.store import JobStore
from fasthep_smk.storage import products
from fasthep_smk.storage.record import Record
from fasthep_smk.storage.taken_over import TakenOver
from fasthep_smk.storage.task_table import Part
from fasthep_smk.util.errors import SmkError

if TYPE_CHECKING:
    from fasthep_smk.flow.records import PartitionData


def adopt(rule: Rule, job: Job, part: Part, index: Index, store: JobStore) -> Record | None:
    """Make a job's folder of what it adopts; ``None`` if something is not as it was."""
    goal = store.build / job.folder
    temporary = goal.with_name(f".{goal.name}.adopted")
    shutil.rmtree(temporary, ignore_errors=True)
    kept = (*rule.kept, *rule.cached(job.signed_as))
    read = index.records.__getitem__
    try:
        taken = TakenOver(store.build, part.adopted, partition_of(job), kept, read=read)
        declared = [name for name in output_files(rule).values() if name != products.RECORD]
        content = taken.save(temporary, [], declared)
    except (OSError, KeyError, ValueError, SmkError):
        shutil.rmtree(temporary, ignore_errors=True)
        return None
    record: Record = {
        **taken.records[0],
        "rule": job.rule,
        "key": job.key,
        "signature": job.signature,
        "started": min(record["started"] for record in taken.records),
        "ended": max(record["ended"] for record in taken.records),
        "results": taken.results,
        "outside": taken.outside,
        "observed": list(
            dict.fromkeys(
                digest for record in taken.records for digest in record.get("observed", ())
            )
        ),
        "made_of": made_of(rule, job),
        "build": os.path.realpath(store.build),
        **content,
        "runs": taken.runs,
        "adopted": taken.jobs,
    }
    record.pop("ran", None)
    products.write_record(temporary, record)
    shutil.rmtree(goal, ignore_errors=True)
    temporary.rename(goal)
    return record


def partition_of(job: Job) -> PartitionData | None:
    """Return a job's partition as records have it."""
    return job.partition.as_dict() if job.partition else None
