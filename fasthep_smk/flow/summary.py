"""What a run did, as FAST-HEP tells it: records of jobs, their sums, the run summary."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fasthep_smk.flow import upstream
from fasthep_smk.flow.quick_yaml import quick_yaml

__all__ = ["Run", "merged_hooks", "relocate", "summarise"]


@dataclass
class Run:
    """What a job did, to be told at the end of the run: FAST-HEP's records of it, as plain data."""

    partition: dict[str, Any] | None = None
    boundary: list[dict[str, Any]] = field(default_factory=list)
    operations: list[dict[str, Any]] = field(default_factory=list)
    resources: dict[str, Any] = field(default_factory=dict)
    hooks: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[dict[str, Any]] = field(default_factory=list)


@quick_yaml()
def summarise(
    plan: Any,
    build: Path,
    *,
    runs: Iterable[Run],
    warnings: Iterable[dict[str, Any]],
    hooks: Iterable[dict[str, Any]],
    bundle_id: str | None,
    missing: Iterable[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Write ``run_summary.yaml`` and the workflow's reports, as FAST-HEP does at the end.

    ``missing`` are the partitions that the results lack; templates of reports find them in the
    summary.
    """
    paths = upstream.BuildPaths.from_plan(plan, outdir=build)
    summary: dict[str, Any] = {
        "backend": "snakemake",
        "strategy": "default",
        "success": True,
        "execution": plan.execution,
        "partitions": _partition_entries(plan, runs),
        "warnings": list(warnings),
        "hooks": {"enabled": list(hooks)},
    }
    lacking = [dict(one) for one in missing]
    if lacking:
        summary["missing_partitions"] = lacking
    count = len(summary["partitions"])
    summary["progress"] = {
        "counts": {
            "total": count + len(lacking),
            "pending": 0,
            "running": 0,
            "completed": count,
            "failed": len(lacking),
            "finished": count + len(lacking),
        }
    }
    if bundle_id is not None:
        summary["bundle_id"] = bundle_id
    summary["summary_path"] = str(paths.run_summary())
    summary["artifacts_path"] = str(paths.artifacts_root())
    if paths.variation is not None:
        summary["variation"] = plan.context.get("variation") or {"name": paths.variation}
    upstream.write_run_summary(paths.root, summary, variation_name=paths.variation)
    reports = upstream.run_workflow_reports(plan, outdir=paths.root, summary=summary)
    if reports:
        summary["reports"] = reports
        upstream.write_run_summary(paths.root, summary, variation_name=paths.variation)
    return summary


def merged_hooks(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """Return the hooks' usage of all jobs as one list: calls added, results joined."""
    merged: dict[tuple[str, ...], dict[str, Any]] = {}
    for run in runs:
        for item in run.hooks:
            name = tuple(str(item.get(part)) for part in ("source", "scope", "kind", "node"))
            known = merged.get(name)
            if known is None:
                merged[name] = (
                    {**item, "results": dict(item["results"])} if "results" in item else dict(item)
                )
                continue
            known["calls"] = int(known.get("calls") or 0) + int(item.get("calls") or 0)
            for key, value in (item.get("results") or {}).items():
                results = known.setdefault("results", {})
                results[key] = _joined(results.get(key), value)
    return list(merged.values())


def relocate(value: Any, old: str, new: str) -> Any:
    """Return ``value`` with the folder ``old`` replaced by ``new`` in every path it holds."""
    if isinstance(value, str):
        return value.replace(old, new) if old in value else value
    if isinstance(value, list):
        return [relocate(item, old, new) for item in value]
    if type(value) is tuple:
        return tuple(relocate(item, old, new) for item in value)
    if type(value) is dict:
        return {relocate(key, old, new): relocate(item, old, new) for key, item in value.items()}
    if isinstance(value, upstream.ArtifactReference):
        value.uri = relocate(value.uri, old, new)
        value.metadata = relocate(dict(value.metadata), old, new)
        value.provenance = relocate(dict(value.provenance), old, new)
        return value
    if isinstance(value, upstream.ArtifactManifest):
        for part in value.parts:
            relocate(part, old, new)
        return value
    if isinstance(value, os.PathLike):
        text = os.fspath(value)
        return type(value)(text.replace(old, new)) if old in text else value  # type: ignore[call-arg]
    return value


def _partition_entries(plan: Any, runs: Iterable[Run]) -> list[dict[str, Any]]:
    order = {node.id: index for index, node in enumerate(plan.nodes)}
    entries: dict[str, dict[str, Any]] = {}
    for run in runs:
        if run.partition is None:
            continue
        entry = entries.setdefault(run.partition["id"], {"partition": run.partition, "outputs": []})
        entry["outputs"].extend(run.boundary)
    for entry in entries.values():
        entry["outputs"].sort(key=lambda item: order.get(item["node"], len(order)))
    return list(entries.values())


def _joined(known: Any, value: Any) -> Any:
    if known is None:
        return value
    if isinstance(known, list) and isinstance(value, list):
        return [*known, *value]
    if isinstance(known, dict) and isinstance(value, dict):
        return {**known, **value}
    if type(known) in (int, float) and type(value) in (int, float):
        return known + value
    return value
