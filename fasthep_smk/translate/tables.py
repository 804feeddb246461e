"""The task tables: for each rule what its jobs are, for Snakemake and for the worker.

One JSON file per rule. ``inputs``, ``signature`` and ``record`` of a job are for Snakemake, the
rest for the worker.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fasthep_smk import layout
from fasthep_smk.inputs import is_remote
from fasthep_smk.plan.rules import Job, Read, Rule
from fasthep_smk.products import ARCHIVE, RECORD
from fasthep_smk.translate.snakefile import output_files

__all__ = ["table_texts"]


def table_texts(rules: Iterable[Rule], *, root: Path) -> dict[str, str]:
    """Return the text of each rule's table by rule name. ``root`` resolves relative inputs."""
    rules = list(rules)
    by_folder = {job.folder: rule for rule in rules for job in rule.jobs.values()}
    return {rule.name: json.dumps(_table(rule, by_folder, root), indent=1) + "\n" for rule in rules}


def _table(rule: Rule, by_folder: Mapping[str, Rule], root: Path) -> dict[str, Any]:
    return {
        "rule": rule.name,
        "scope": rule.scope,
        "stages": list(rule.stages),
        "pool": rule.pool,
        "wildcards": list(rule.wildcards),
        "outputs": list(output_files(rule).values()),
        "keeps": [
            {
                "node": node,
                "port": port,
                "file": rule.streams.get((node, port)),
                "live": _listed(rule.live.get((node, port))),
            }
            for node, port in dict.fromkeys([*rule.keeps, *rule.streams])
        ],
        "jobs": {key: _job(job, by_folder, root) for key, job in rule.jobs.items()},
    }


def _job(job: Job, by_folder: Mapping[str, Rule], root: Path) -> dict[str, Any]:
    local = [os.path.normpath(root / file) for file in job.files if not is_remote(file)]
    # Snakemake would take braces in a path for wildcards, and has no way to write them otherwise.
    # The signature knows the file too, so that a change of it is not missed.
    # What is no file at all is a key that the workflow's own source understands.
    inputs = [path for path in local if not set(path) & set("{}") and Path(path).is_file()]
    for read in job.reads:
        inputs += [f"{read.folder}/{name}" for name in _files_read(read, by_folder[read.folder])]
    return {
        "inputs": inputs,
        "record": f"{job.folder}/{RECORD}",
        "signature": job.signature,
        "folder": job.folder,
        "plan": layout.plan(job.variation),
        "variation": job.variation,
        "dataset": job.dataset,
        "partition": job.partition.as_dict() if job.partition else None,
        "nodes": list(job.nodes),
        "reads": [
            {"folder": read.folder, "keys": [list(key) for key in read.keys]} for read in job.reads
        ],
    }


def _files_read(read: Read, producer: Rule) -> list[str]:
    files = [RECORD]
    if producer.archive and any(key not in producer.streams for key in read.keys):
        files.append(ARCHIVE)
    files += [producer.streams[key] for key in read.keys if key in producer.streams]
    if producer.scope == "side" and producer.archive:
        files.append(ARCHIVE)
    return list(dict.fromkeys(files))


def _listed(live: tuple[str, ...] | None) -> list[str] | None:
    return None if live is None else list(live)
