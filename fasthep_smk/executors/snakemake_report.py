"""What ``snakemake --report`` shows of a build folder: its plots, and when its jobs ran.

Snakemake takes the times of jobs from notes of its own, which a run here does not keep: two files
for each job. The records say the same.
"""

from __future__ import annotations

import importlib
import json
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from fasthep_smk.flow import patches
from fasthep_smk.storage import layout
from fasthep_smk.util import files
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.names import comment, encode, is_plain

_PROVENANCE = "artifacts/provenance/manifest.json"
_PLOTS = (".png", ".svg", ".jpg", ".gif", ".pdf")
#: Captions, which Snakemake reads as files, as long as its process lives.
_captions: list[tempfile.TemporaryDirectory[str]] = []


def plots(build: Path) -> Iterator[tuple[str, JsonObject]]:
    """Yield the plots of a build folder, each with its arguments for Snakemake's ``report``.

    A category is a stage; the caption says what has drawn the plot.
    """
    _captions.append(tempfile.TemporaryDirectory(prefix="fasthep-smk-"))
    folder = Path(_captions[-1].name)
    nodes = {
        name: node
        for plan in sorted((build / layout.PLANS).glob("*.json"))
        for name, node in _nodes(plan)
    }
    for entry in _listed(build):
        path, node_id = str(entry.get("artifact")), str(entry.get("node_id"))
        goal = build / path
        if goal.suffix not in _PLOTS or not goal.is_file():
            continue
        node = nodes.get(node_id, {})
        stage = str((node.get("meta") or {}).get("stage_id") or node_id)
        caption = folder / f"{encode(path)}.rst"
        # As it is, whatever it holds: neither markup nor a template.
        text = f"{stage}, drawn by {node.get('impl') or node_id}"
        caption.write_text(f"::\n\n    {_plain(text)}\n", encoding="utf-8")
        if not is_plain(path):
            link = folder / f"{encode(path)}{goal.suffix}"
            link.symlink_to(goal.absolute())
            path = str(link)
        yield (
            path,
            {
                "caption": str(caption),
                "category": _plain(stage),
                "labels": {"plot": _plain(goal.stem)},
            },
        )


def _plain(text: str) -> str:
    """Return a text in which Snakemake fills nothing in."""
    return comment(text).replace("%", "?") or "?"


def _listed(build: Path) -> list[JsonObject]:
    try:
        entries = json.loads(files.read_plain(build / _PROVENANCE))["records"]
        return [entry for entry in entries if isinstance(entry, dict)]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []


def _nodes(plan: Path) -> list[tuple[str, JsonObject]]:
    try:
        return [(str(node["id"]), node) for node in json.loads(files.read_plain(plan))["nodes"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []


def take_times(build: Path) -> None:
    """Let Snakemake's report, in this process, take the times of jobs from their records."""
    importlib.import_module("snakemake.cli")  # the modules below it import each other
    module = importlib.import_module("snakemake.report")
    make_report = module.auto_report
    bundles = _bundles(build)

    def metadata(target: object) -> JsonObject | None:
        path = str(target)
        return _note(build, path, tuple(bundles.get(path) or [path.rpartition("/")[0]]))

    async def auto_report(dag: Any, *rest: object, **more: object) -> None:
        with patches.REPORT_TIMES.made(dag.workflow.persistence, metadata=metadata):
            await make_report(dag, *rest, **more)

    patches.REPORT_TIMES.make(module, auto_report=auto_report)


@cache
def _note(build: Path, path: str, folders: tuple[str, ...]) -> JsonObject | None:
    """Return what Snakemake would have noted of a file, by the records of the jobs that made it."""
    records = [record for folder in folders if (record := _record(build / folder / layout.RECORD))]
    if not records:
        return None
    return {
        "job_hash": hash(folders if len(folders) == 1 else path),
        "rule": records[0]["rule"],
        "starttime": min(record["started"] for record in records),
        "endtime": max(record["ended"] for record in records),
        "conda_env": None,
        "container_img_url": None,
    }


@cache
def _record(path: Path) -> JsonObject | None:
    try:
        record = json.loads(files.read_plain(path))
        return {name: record[name] for name in ("rule", "started", "ended")}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _bundles(build: Path) -> dict[str, list[str]]:
    """Return the folders of the jobs in each bundle, by its marker."""
    by_marker: dict[str, list[str]] = {}
    for path in (build / layout.TASKS).glob("*.json"):
        # Snakemake has read it, too. Two keys are looked up: no objects for all jobs are needed.
        table = json.loads(files.read_plain(path))
        for bundle in table["bundles"].values():
            by_marker[bundle["marker"]] = [table["jobs"][key]["folder"] for key in bundle["jobs"]]
    return by_marker
