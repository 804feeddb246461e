"""The task tables: for each rule what its jobs are, for Snakemake and for the worker.

One JSON file per rule (`fasthep_smk.storage.task_table`): what a job reads and makes is nested.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec.structs import replace

from fasthep_smk.plan.rules import Job, Rule, origin_facts, output_files, signatures
from fasthep_smk.storage import layout
from fasthep_smk.storage.layout import RECORD
from fasthep_smk.storage.task_table import BundleEntry, JobEntry, Part, Source, TaskTable
from fasthep_smk.translate.bundles import signature_of
from fasthep_smk.translate.waits_for import Waits
from fasthep_smk.util.names import is_plain
from fasthep_smk.util.remote import is_remote, local_path

Sources = Mapping[str, Source]
#: A table of more jobs is one line.
_READABLE = 1000


def table_texts(
    rules: Iterable[Rule],
    *,
    root: Path,
    waits: Waits,
    parts: Mapping[str, Part] | None = None,
    sources: Callable[[Rule], Sources] = lambda _: {},
    stat: Callable[[str], str] = lambda path: path,
) -> dict[str, str]:
    """Return the text of each rule's table by rule name.

    ``root`` resolves relative inputs; ``waits`` tells what jobs wait for, ``parts`` of which only a
    part has to run. ``sources`` tells which files signatures of a rule know besides the inputs, of
    which ``stat`` tells path, size and time.
    """
    rules = list(rules)
    texts = {}
    for rule in rules:
        jobs = {
            key: JobEntry(
                inputs=(*_local_files(job, root), *waits.of(job)),
                record=f"{job.folder}/{RECORD}",
                target=rule is rules[-1] or _makes_results(rule, job),
                signature=job.signature,
                signed_as=job.signed_as,
                origin=origin_facts(job),
                folder=job.folder,
                plan=layout.plan(job.variation),
                variation=job.variation,
                dataset=job.dataset,
                partition=job.partition.as_dict() if job.partition else None,
                nodes=job.nodes,
                reads=tuple(
                    replace(read, marker=waits.markers.get(read.folder)) for read in job.reads
                ),
                files={file: stat(file) for file in job.files if not is_remote(file)},
                values=dict(job.values),
                missing=job.missing,
                sample=job.sample,
                part=(parts or {}).get(job.folder),
                measured=bool(job.measured),
            )
            for key, job in rule.jobs.items()
        }
        # For people where they could read it; indented text is a quarter longer.
        texts[rule.name] = _table(rule, jobs, sources(rule)).to_text(
            indent=1 if len(jobs) <= _READABLE else 0
        )
    return texts


def reads_files(rule: Rule, root: Path) -> bool:
    """Whether Snakemake is told of files from outside the build folder for some job of a rule."""
    return any(_local_files(job, root) for job in rule.jobs.values())


def _table(rule: Rule, jobs: Mapping[str, JobEntry], sources: Sources) -> TaskTable:
    return TaskTable(
        rule=rule.name,
        scope=rule.scope,
        stages=rule.stages,
        pool=rule.route.attempts[0].pool,
        wildcards=rule.named_by,
        outputs=tuple(output_files(rule).values()),
        keeps=rule.kept,
        cached={name: kept for name in rule.wirings if (kept := rule.cached(name))},
        nodes={name: signatures(nodes) for name, nodes in rule.nodes.items()},
        jobs=jobs,
        bundles={
            key: BundleEntry(bundle.jobs, bundle.marker, signature_of(rule, bundle))
            for key, bundle in rule.bundles.items()
        },
        sources=sources,
    )


def _makes_results(rule: Rule, job: Job) -> bool:
    """Whether a job writes files for the user: it runs again if they were deleted."""
    nodes = rule.nodes.get(job.signed_as, {})
    writers = (node for node in job.nodes if nodes[node].content["role"] in ("sink", "observer"))
    return not job.is_left_out and (bool(job.measured) or any(writers))


def _local_files(job: Job, root: Path) -> list[str]:
    """Return the files from outside that Snakemake is told of, with absolute paths."""
    paths = filter(None, map(local_path, job.files))
    local = [os.path.normpath(root / path) for path in paths]
    # The signature knows the file too, so that a change of one that Snakemake cannot be told of is
    # not missed.
    # What is no file at all is a key that the workflow's own source understands.
    return [path for path in local if is_plain(path) and Path(path).is_file()]
