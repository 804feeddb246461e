"""The task tables: for each rule what its jobs are, for Snakemake and for the worker.

One JSON file per rule: what a job reads and makes is nested. ``inputs``, ``signature`` and
``record`` of a job are for Snakemake, the rest for the worker. The partitions alone are a flat
table, for people.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fasthep_smk.plan.partitions import missing_entries
from fasthep_smk.plan.rules import Job, Rule, origin_facts, output_files, signatures
from fasthep_smk.storage import layout
from fasthep_smk.storage.products import RECORD
from fasthep_smk.translate.bundles import signature_of
from fasthep_smk.translate.waits_for import Waits
from fasthep_smk.util.remote import is_remote

if TYPE_CHECKING:
    from fasthep_smk.reuse.partial import Part

__all__ = ["partitions_text", "table_texts"]

#: By path: identity, size and modification time of a file.
Sources = Mapping[str, tuple[str | None, int, int]]
#: A table of more jobs is one line.
_READABLE = 1000


def table_texts(
    rules: Iterable[Rule],
    *,
    root: Path,
    waits: Waits,
    parts: Mapping[str, Part] | None = None,
    without: Mapping[tuple[str, str], str] | None = None,
    sources: Mapping[str, Sources] | None = None,
    stat: Callable[[str], str] = lambda path: path,
) -> dict[str, str]:
    """Return the text of each rule's table by rule name.

    ``root`` resolves relative inputs; ``waits`` tells what jobs wait for, ``parts`` of which only a
    part has to run, and ``without`` what went wrong with the partitions (dataset and part) that are
    left out. ``sources`` are by rule the files that signatures know besides the inputs, of which
    ``stat`` tells path, size and time.
    """
    rules, parts = list(rules), parts or {}
    markers = _markers(rules)
    texts = {}
    for rule in rules:
        jobs = {
            key: {
                **_job(job, waits.of(job), root, markers),
                **_files(job, stat),
                "target": rule is rules[-1] or _makes_results(rule, job, without or {}),
                **_missing(job, without or {}),
                **({"part": parts[job.folder].as_dict()} if job.folder in parts else {}),
            }
            for key, job in rule.jobs.items()
        }
        # For people where they could read it; indented text takes four times as long.
        indent = 1 if len(jobs) <= _READABLE else None
        table = {**_table(rule, jobs), "sources": (sources or {}).get(rule.name, {})}
        texts[rule.name] = json.dumps(table, indent=indent) + "\n"
    return texts


def partitions_text(rules: Iterable[Rule]) -> str:
    """Return all partitions as tab-separated values, for a spreadsheet.

    ``first`` is the first entry of a partition in its file, ``end`` the one after its last; both
    are empty where a partition is a whole file whose number of entries nobody has asked for.
    """
    found = {job.partition: None for rule in rules for job in rule.jobs.values() if job.partition}
    text = io.StringIO()
    table = csv.writer(text, delimiter="\t", lineterminator="\n")
    table.writerow(["dataset", "part", "source", "file", "first", "end"])
    for one in found:
        table.writerow([one.dataset, one.part, one.source, one.file, one.start, one.stop])
    return text.getvalue()


def _table(rule: Rule, jobs: dict[str, Any]) -> dict[str, Any]:
    return {
        "rule": rule.name,
        "scope": rule.scope,
        "stages": list(rule.stages),
        "pool": rule.route.attempts[0].pool,
        "wildcards": list(rule.named_by),
        "outputs": list(output_files(rule).values()),
        "keeps": [
            _keep(key, rule.streams.get(key), rule.live.get(key))
            for key in dict.fromkeys([*rule.keeps, *rule.streams])
        ],
        "spares": {
            name: [
                _keep(key, layout.stream(*key, spare=True), live) for key, live in spares.items()
            ]
            for name, spares in ((name, one.spares) for name, one in rule.wirings.items())
            if spares
        },
        "nodes": {name: signatures(nodes) for name, nodes in rule.nodes.items()},
        "jobs": jobs,
        "bundles": {
            key: {
                "jobs": list(one.jobs),
                "marker": one.marker,
                "signature": signature_of(rule, one),
            }
            for key, one in rule.bundles.items()
        },
    }


def _markers(rules: Iterable[Rule]) -> dict[str, str]:
    """Return the marker of the bundle that a job is in, by the job's folder."""
    return {
        rule.jobs[key].folder: one.marker
        for rule in rules
        for one in rule.bundles.values()
        for key in one.jobs
    }


def _keep(key: tuple[str, str], file: str | None, live: tuple[str, ...] | None) -> dict[str, Any]:
    return {"node": key[0], "port": key[1], "file": file, "live": _listed(live)}


def _missing(job: Job, without: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    return {"missing": missing_entries(job.missing, without)} if job.missing else {}


def _files(job: Job, stat: Callable[[str], str]) -> dict[str, Any]:
    """Return size and time of a job's local input files, which it compares when it runs."""
    found = {file: stat(file) for file in job.files if not is_remote(file)}
    return {"files": found} if found else {}


def _makes_results(rule: Rule, job: Job, without: Mapping[tuple[str, str], str]) -> bool:
    """Tell whether a job writes files for the user: it runs again if they were deleted."""
    if job.partition and (job.partition.dataset, job.partition.part) in without:
        return False
    nodes = rule.nodes.get(job.signed_as, {})
    return any(nodes[node].content["role"] in ("sink", "observer") for node in job.nodes)


def _job(job: Job, awaited: list[str], root: Path, markers: Mapping[str, str]) -> dict[str, Any]:
    local = [os.path.normpath(root / file) for file in job.files if not is_remote(file)]
    # Snakemake would take braces in a path for wildcards, and has no way to write them otherwise.
    # The signature knows the file too, so that a change of it is not missed.
    # What is no file at all is a key that the workflow's own source understands.
    inputs = [path for path in local if not set(path) & set("{}") and Path(path).is_file()]
    return {
        "inputs": [*inputs, *awaited],
        "record": f"{job.folder}/{RECORD}",
        "signature": job.signature,
        "signed_as": job.signed_as,
        "origin": origin_facts(job),
        "folder": job.folder,
        "plan": layout.plan(job.variation),
        "variation": job.variation,
        "dataset": job.dataset,
        "partition": job.partition.as_dict() if job.partition else None,
        "nodes": list(job.nodes),
        "reads": [
            {
                "folder": read.folder,
                "keys": [list(key) for key in read.keys],
                **({"marker": markers[read.folder]} if read.folder in markers else {}),
            }
            for read in job.reads
        ],
        **({"values": dict(job.values)} if job.values else {}),
    }


def _listed(live: tuple[str, ...] | None) -> list[str] | None:
    return None if live is None else list(live)
