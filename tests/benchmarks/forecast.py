"""What a forecast says after a sample, and what the rest of the run then takes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from . import workflows
from .measure import Failed, measure
from .report import Figure, Result
from .steps import Settings, smk

__all__ = ["forecast"]

#: The share of the partitions in the sample, and by how much a forecast may be off.
_SHARE, _LIMIT = "10%", 0.3
_PARTITIONS = 60


def forecast(settings: Settings) -> Result:
    """Return by how much forecasts of three workflows are off: time of jobs, end, disk."""
    folder, total = settings.folder, settings.events
    each = {
        "the demo": workflows.zmumu(total),
        "the demo's histograms with 10 variations": workflows.varied(total, 10),
        "the demo's selection with 20 histograms": workflows.histograms(total, edited=False),
    }
    figures, notes = list[Figure](), list[str]()
    for number, (name, document) in enumerate(each.items()):
        found = _one(document, folder, f"{number}", total)
        for what, (said, real) in found.items():
            value = abs(said / real - 1)
            figures.append(Figure(f"{name}: {what} is off by", value, _LIMIT))
            notes.append(f"{name}: {what}: forecast {said:.4g}, then {real:.4g}")
    what = f"Three workflows, {total:,} events in about {_PARTITIONS} partitions; {_SHARE} first."
    return Result("forecast", what, [], figures, notes)


def _one(
    document: workflows.Document, folder: Path, name: str, total: int
) -> dict[str, tuple[float, float]]:
    """Return what was said of the rest of a run, and what it took."""
    workflows.write(document, folder, f"{name}.yaml")
    common = (f"{name}.yaml", "-o", name, "-j", "2")
    cut = ("--chunk-size", str(max(1, total // _PARTITIONS)), "--bundle", "1")
    measure(smk(*common, *cut, "--sample", _SHARE), folder)
    said = json.loads(measure(smk("forecast", *common, *cut, "--json"), folder).output)
    before = _records(folder / name)
    wall = measure(smk(*common, *cut), folder).wall
    after = _records(folder / name)
    new = [one for place, one in after.items() if before.get(place) != one]
    if not before or len(new) <= len(before):
        raise Failed(f"the sample of {name} was no small part of it")
    jobs = sum((one["ended"] - one["started"]) * one["threads"] for one in new)
    found = {
        "seconds of jobs": (said["core_seconds"], jobs),
        "seconds to the end": (said["seconds"], wall),
        "bytes on disk": (said["disk"], float(sum(map(_size, new)))),
    }
    print(f"    {name}: {len(new)} jobs after {len(before)}: {found}", file=sys.stderr)
    return found


def _records(build: Path) -> dict[str, dict[str, Any]]:
    found = {}
    for path in build.glob("smk/work/**/record.json"):
        found[str(path)] = {**json.loads(path.read_text(encoding="utf-8")), "folder": path.parent}
    return found


def _size(record: dict[str, Any]) -> int:
    """Return the bytes of a job's products and results."""
    folder: Path = record["folder"]
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "record.json"]
    return sum(path.stat().st_size for path in files) + sum(
        one["size"] for one in record["results"].values()
    )
