"""Take out of a reference run the partitions that read nothing.

``fasthep run --chunk-size`` cuts every file of a dataset as if it held the whole dataset's
``nevents``: ranges behind the end of a file are read, and yield empty skims and reports. Where
ranges come from the entries that a file really has, those partitions do not exist. They add
nothing to any result, so that everything else of the two runs must still be equal.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import uproot
import yaml

__all__ = ["drop_empty_partitions"]


def drop_empty_partitions(build: Path, ours: Path, *, root: Path) -> list[str]:
    """Remove superfluous partitions from the reference ``build``, clip ranges to the file's end.

    A partition is superfluous if ``ours`` does not have it. It must then read nothing, or the same
    entries as another one (of a second source of the same file).
    Returns the ids of the removed partitions.

    Raises:
        AssertionError: a partition that holds events of its own is missing in ``ours``.
    """
    kept = _partitions_of_tables(ours)
    places = {(p["dataset"], p["file"], p["part"]) for p in kept.values()}
    planned = _partitions_of_plans(build)
    removed = [item for item in planned if item["id"] not in kept]
    for item in removed:
        again = (item["dataset"], item["file"], item["part"]) in places
        empty = not again and (item["start"] or 0) >= _entries(root / item["file"])
        assert again or empty, f"partition {item['id']} holds events"
        for file in [*(build / "artifacts").rglob("*"), *(build / "reports").rglob("*")]:
            if file.is_file() and _belongs_to(file, item, by_place=empty):
                file.unlink()
    for file in (build / "reports").rglob("*.json"):
        if file.stem in kept:
            file.write_text(json.dumps(_clipped(json.loads(file.read_text()), kept[file.stem])))
    execution = build / "artifacts/provenance/execution.json"
    if execution.is_file():
        names = {item["id"] for item in removed}
        summary = json.loads(execution.read_text())
        summary["partitions"] = [p for p in summary["partitions"] if p["id"] not in names]
        for item in summary["partitions"]:
            item["stop"] = kept[item["id"]]["stop"]
        summary["node_executions"] = [
            n for n in summary["node_executions"] if n.get("partition_id") not in names
        ]
        execution.write_text(json.dumps(summary))
    for file in build.glob("artifacts/**/manifest.json"):
        file.write_text(json.dumps(_pruned(json.loads(file.read_text()), build)))
    return sorted(item["id"] for item in removed)


def _partitions_of_tables(build: Path) -> dict[str, dict[str, Any]]:
    tables = [json.loads(path.read_text()) for path in (build / "smk/tasks").glob("*.json")]
    found = [job["partition"] for table in tables for job in table["jobs"].values()]
    return {item["id"]: item for item in found if item is not None}


def _partitions_of_plans(build: Path) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for path in (build / "compile").rglob("plan.yaml"):
        for item in yaml.safe_load(path.read_text())["partitions"]:
            found[item["id"]] = item
    return list(found.values())


def _clipped(report: Any, partition: dict[str, Any]) -> Any:
    """Let a report on a partition say where the file really ends."""
    if isinstance(report, dict) and "stop" in (report.get("metadata") or {}):
        report["metadata"]["stop"] = partition["stop"]
    return report


def _pruned(value: Any, build: Path) -> Any:
    """Drop the manifest items whose file is gone."""
    if isinstance(value, dict):
        return {key: _pruned(item, build) for key, item in value.items()}
    if isinstance(value, list):
        return [_pruned(item, build) for item in value if not _names_lost_file(item, build)]
    return value


def _names_lost_file(item: Any, build: Path) -> bool:
    if not isinstance(item, dict):
        return False
    path = item.get("path") or item.get("artifact")
    return isinstance(path, str) and path.startswith("artifacts/") and not (build / path).exists()


def _belongs_to(path: Path, partition: dict[str, Any], *, by_place: bool) -> bool:
    if not by_place:
        return path.stem == partition["id"]
    part, dataset = partition["part"], partition["dataset"]
    own = path.stem == part and dataset in path.parts
    return own or partition["id"] in path.stem or path.stem == f"{dataset}_{part}"


def _entries(path: Path) -> int:
    with uproot.open(path) as opened:
        trees = [opened[key] for key in opened.keys(recursive=True, filter_classname="TTree")]
        return max(tree.num_entries for tree in trees)
