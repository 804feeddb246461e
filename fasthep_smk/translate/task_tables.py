"""The task tables: for each rule what its jobs are, for Snakemake and for the worker.

One JSON file per rule (`fasthep_smk.storage.task_table`): what a job reads and makes is nested. The
partitions alone are a flat table, for people.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fasthep_smk.plan.partitions import Partition, Place, missing_entries
from fasthep_smk.plan.rules import Job, Rule, origin_facts, output_files, signatures
from fasthep_smk.storage import layout
from fasthep_smk.storage.layout import RECORD
from fasthep_smk.storage.task_table import BundleEntry, JobEntry, Part, Source, TaskTable
from fasthep_smk.translate.bundles import signature_of
from fasthep_smk.translate.waits_for import Waits
from fasthep_smk.util.names import is_plain
from fasthep_smk.util.remote import is_remote, local_path

if TYPE_CHECKING:
    from fasthep_smk.plan.sample import Sampled

Sources = Mapping[str, Source]
#: A table of more jobs is one line.
_READABLE = 1000


def table_texts(
    rules: Iterable[Rule],
    *,
    root: Path,
    waits: Waits,
    parts: Mapping[str, Part] | None = None,
    without: Mapping[tuple[str, str], str] | None = None,
    sample: Sampled | None = None,
    sources: Mapping[str, Sources] | None = None,
    stat: Callable[[str], str] = lambda path: path,
) -> dict[str, str]:
    """Return the text of each rule's table by rule name.

    ``root`` resolves relative inputs; ``waits`` tells what jobs wait for, ``parts`` of which only a
    part has to run, and ``without`` what went wrong with the partitions (dataset and part) that are
    left out; a ``sample`` leaves out others. ``sources`` are by rule the files that signatures know
    besides the inputs, of which
    ``stat`` tells path, size and time.
    """
    rules, parts, without = list(rules), parts or {}, without or {}
    left_out = without.keys() | (sample.left_out if sample else frozenset())
    markers = _markers(rules)
    texts = {}
    for rule in rules:
        jobs = {
            key: replace(
                _entry(job, waits.of(job), root, markers),
                files={file: stat(file) for file in job.files if not is_remote(file)},
                target=rule is rules[-1] or _makes_results(rule, job, left_out),
                missing=tuple(missing_entries(_lost(job, without), without)),
                sample=sample.as_data() if sample and job.is_sample else None,
                part=parts.get(job.folder),
            )
            for key, job in rule.jobs.items()
        }
        table = _table(rule, jobs, (sources or {}).get(rule.name, {}))
        # For people where they could read it; indented text is a quarter longer.
        texts[rule.name] = table.to_text(indent=1 if len(jobs) <= _READABLE else 0)
    return texts


def reads_files(rule: Rule, root: Path) -> bool:
    """Whether Snakemake is told of files from outside the build folder for some job of a rule."""
    return any(_local_files(job, root) for job in rule.jobs.values())


def partitions_text(rules: Iterable[Rule]) -> str:
    """Return all partitions as tab-separated values, for a spreadsheet.

    Entries are counted from 0, ``stop`` is the one after the last; both are empty where a partition
    is a whole file whose number of entries was not asked for. Relative files are in the folder
    that the run was started in.
    """
    partitions = {
        job.partition: None for rule in rules for job in rule.jobs.values() if job.partition
    }
    text = io.StringIO()
    table = csv.writer(text, delimiter="\t", lineterminator="\n")
    table.writerow(["dataset", "part", "source", "file", "start", "stop"])
    for part in partitions:
        table.writerow([part.dataset, part.part, part.source, part.file, part.start, part.stop])
    return text.getvalue()


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


def _markers(rules: Iterable[Rule]) -> dict[str, str]:
    """Return the marker of the bundle that a job is in, by the job's folder."""
    return {
        rule.jobs[key].folder: bundle.marker
        for rule in rules
        for bundle in rule.bundles.values()
        for key in bundle.jobs
    }


def _lost(job: Job, without: Container[Place]) -> list[Partition]:
    """Return the partitions that a job goes without, and that were not left out of a sample."""
    return [part for part in job.missing if (part.dataset, part.part) in without]


def _makes_results(rule: Rule, job: Job, left_out: Container[Place]) -> bool:
    """Whether a job writes files for the user: it runs again if they were deleted."""
    if job.partition and (job.partition.dataset, job.partition.part) in left_out:
        return False
    nodes = rule.nodes.get(job.signed_as, {})
    writers = (node for node in job.nodes if nodes[node].content["role"] in ("sink", "observer"))
    return bool(job.measured) or any(writers)


def _local_files(job: Job, root: Path) -> list[str]:
    """Return the files from outside that Snakemake is told of, with absolute paths."""
    paths = filter(None, map(local_path, job.files))
    local = [os.path.normpath(root / path) for path in paths]
    # The signature knows the file too, so that a change of one that Snakemake cannot be told of is
    # not missed.
    # What is no file at all is a key that the workflow's own source understands.
    return [path for path in local if is_plain(path) and Path(path).is_file()]


def _entry(job: Job, awaited: list[str], root: Path, markers: Mapping[str, str]) -> JobEntry:
    return JobEntry(
        inputs=(*_local_files(job, root), *awaited),
        record=f"{job.folder}/{RECORD}",
        target=False,
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
            replace(read, marker=markers[read.folder]) if read.folder in markers else read
            for read in job.reads
        ),
        values=dict(job.values),
        measured=bool(job.measured),
    )
