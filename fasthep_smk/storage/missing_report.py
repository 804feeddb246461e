"""What a run's reports say of its results: what they lack, and what jobs warned of."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.storage import failures

if TYPE_CHECKING:
    from fasthep_smk.flow.records import MissingPartition, SampleFacts

#: Where a run's reports list what it lacks.
REPORT = "missing_partitions.md"
#: Where they say of what the results are a sample.
SAMPLE = "sample.md"
#: What they say first of such results.
PART = "THE RESULTS COVER PART OF THE DATA"
#: Where they say what jobs warned of: weights that are NaN or infinite, inputs that were changed.
WARNINGS = "warnings.md"


def reported(build: Path) -> str:
    """Return what to say of a build folder whose results lack partitions; nothing if none do."""
    reports = _found(build, REPORT)
    lines = [f"THE RESULTS ARE INCOMPLETE: see {', '.join(map(str, reports))}"] if reports else []
    if samples := _found(build, SAMPLE):
        lines.append(f"{PART}: see {', '.join(map(str, samples))}")
    return "\n".join(lines)


def is_partial(build: Path) -> bool:
    """Whether the results in a build folder lack partitions that were asked for."""
    return bool(_found(build, REPORT))


def is_sample(build: Path) -> bool:
    """Whether the results in a build folder are those of a sample."""
    return bool(_found(build, SAMPLE))


def of_sample(sample: SampleFacts | None) -> str:
    """Return a report on what results are a sample of, for people; nothing if they are none."""
    if sample is None:
        return ""
    return (
        "# Sample\n\n"
        f"All results of this run come from {said_of_sample(sample)}. "
        f"To get the results of all events, run again without {sample['asked'].split()[0]}.\n"
    )


def said_by_jobs(build: Path) -> list[str]:
    """Return what jobs warned of, by the reports in a build folder: a text for each stage."""
    texts = []
    for path in _found(build, WARNINGS):
        of = "" if path.parent.name == "reports" else f"variation {path.parent.name!r}: "
        lines = path.read_text(encoding="utf-8").splitlines()
        texts += [f"{of}{text.removeprefix('- ')}" for text in lines]
    return texts


def said_of_sample(sample: SampleFacts) -> str:
    """Return in words of how many partitions a sample is, and how it was asked for."""
    return f"{sample['partitions']} of {sample['total']} partitions ({sample['asked']})"


def _found(build: Path, name: str) -> list[Path]:
    return sorted((build / "reports").rglob(name))


def markdown(missing: Iterable[MissingPartition], total: int) -> str:
    """Return a report on the missing ones of a summary's partitions, for people; none: nothing."""
    missing = list(missing)
    if not missing:
        return ""
    rows = [
        [part["dataset"], part["file"], failures.span(part["start"], part["stop"]), part["reason"]]
        for part in missing
    ]
    lines = [
        "# Missing partitions",
        "",
        f"All results of this run lack {len(missing)} of {total} partitions.",
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
