"""The bundles of a translation on disk: a file for each one of which all jobs are done."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fasthep_smk.plan.rules import Bundle, Rule
from fasthep_smk.storage import layout
from fasthep_smk.storage.layout import RECORD
from fasthep_smk.storage.task_table import marker_text
from fasthep_smk.translate.waits_for import Waits
from fasthep_smk.util import files
from fasthep_smk.util.files import digest_of

__all__ = ["mark", "signature_of"]


def mark(rules: Iterable[Rule], waits: Waits, build: Path) -> None:
    """Let the markers agree with the jobs: Snakemake runs the bundles that have none.

    A finished job whose files are needed again and were deleted loses its record: its bundle would
    pass it over.
    """
    valid: set[Path] = set()
    for rule in rules:
        for one in rule.bundles.values():
            left = [key for key in one.jobs if rule.jobs[key].folder in waits.unfinished]
            for key in left:
                (build / rule.jobs[key].folder / RECORD).unlink(missing_ok=True)
            if not left:
                marker = build / one.marker
                files.write_text(marker, marker_text(signature_of(rule, one)))
                valid.add(marker)
    for path in (build / layout.BUNDLES).rglob("*.json"):
        if path not in valid:
            path.unlink()


def signature_of(rule: Rule, one: Bundle) -> str:
    """Return what signs a bundle: the signatures of its jobs."""
    return digest_of([rule.jobs[key].signature for key in one.jobs])
