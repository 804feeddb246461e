"""What a run's reports say of the partitions that its results lack."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.storage import failures

if TYPE_CHECKING:
    from fasthep_smk.flow.records import MissingPartition

__all__ = ["REPORT", "count", "line", "markdown", "reported"]

#: Where a run's reports list what it lacks.
REPORT = "missing_partitions.md"


def reported(build: Path) -> str:
    """Return what to say of a build folder whose results lack partitions; nothing if none do."""
    reports = build / "reports"
    found = sorted([*reports.glob(REPORT), *reports.glob(f"*/{REPORT}")])
    return f"THE RESULTS ARE INCOMPLETE: see {', '.join(map(str, found))}" if found else ""


def markdown(missing: Iterable[MissingPartition], total: int) -> str:
    """Return a report on the missing ones of a summary's partitions, for people."""
    missing = list(missing)
    rows = [
        [one["dataset"], one["file"], failures.span(one["start"], one["stop"]), one["reason"]]
        for one in missing
    ]
    lines = [
        "# Missing partitions",
        "",
        f"{count(len(missing), total)} in all results of this run.",
        "",
        "| dataset | file | entries | what went wrong |",
        "|---|---|---|---|",
        *("| " + " | ".join(_cell(str(cell)) for cell in row) + " |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def count(missing: int, total: int) -> str:
    """Return how many partitions are missing, in words."""
    return f"{missing} of {total} partitions {'is' if missing == 1 else 'are'} missing"


def line(entry: MissingPartition) -> str:
    """Return a missing partition, as an entry of a summary has it, in one line."""
    span = failures.span(entry["start"], entry["stop"])
    return f"{entry['dataset']}: {entry['file']}, {span}: {entry['reason']}"


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|")
