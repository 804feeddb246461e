"""The bundles of a translation on disk: a file for each one of which all jobs are done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from fasthep_smk.plan.rules import Bundle, Rule
from fasthep_smk.storage import layout
from fasthep_smk.storage.layout import RECORD
from fasthep_smk.storage.task_table import marker_text
from fasthep_smk.translate.waits_for import Waits
from fasthep_smk.util import files
from fasthep_smk.util.files import digest_of

#: The folders of jobs that are to run, by their rule and the marker of their bundle.
Bundles = Mapping[str, Mapping[str, Sequence[str]]]


def mark(rules: Iterable[Rule], waits: Waits, build: Path) -> Bundles:
    """Let the markers agree with the jobs: Snakemake runs the bundles that have none.

    Return those that are to run.

    A finished job whose files are needed again and were deleted loses its record: its bundle would
    pass it over.
    """
    valid: set[Path] = set()
    to_run: dict[str, dict[str, list[str]]] = {}
    for rule in rules:
        for bundle in rule.bundles.values():
            folders = (rule.jobs[key].folder for key in bundle.jobs)
            left = [folder for folder in folders if folder in waits.unfinished]
            for folder in left:
                (build / folder / RECORD).unlink(missing_ok=True)
            if left:
                to_run.setdefault(rule.name, {})[bundle.marker] = left
            else:
                marker = build / bundle.marker
                files.write_text(marker, marker_text(signature_of(rule, bundle)))
                valid.add(marker)
    for path in (build / layout.BUNDLES).rglob("*.json"):
        if path not in valid:
            path.unlink()
    return to_run


def signature_of(rule: Rule, bundle: Bundle) -> str:
    """Return what signs a bundle: the signatures of its jobs."""
    return digest_of([rule.jobs[key].signature for key in bundle.jobs])
