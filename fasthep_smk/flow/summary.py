"""What a run did, as FAST-HEP tells it: records of jobs, their sums, the run summary."""

from __future__ import annotations

import os
import re
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar

from fasthep_smk.flow import upstream
from fasthep_smk.flow.patches.quick_yaml import parse_written, quick_yaml
from fasthep_smk.flow.stage_error import stage_of
from fasthep_smk.util.documents import JsonObject

if TYPE_CHECKING:
    from fasthep_smk.flow.records import (
        MissingPartition,
        PartitionData,
        ProductOutline,
        SampleFacts,
    )
    from fasthep_smk.flow.shapes import Key, Plan

_Value = TypeVar("_Value")

_SUMMARY = "run_summary.yaml"
#: The category of the warning of a weight that is NaN or infinite, beside those of Python.
NOT_FINITE = "WeightNotFinite"
#: That of a histogram whose only axis lacks values.
DROPPED = "ValuesDropped"
#: That of an operation of a user's own which changed something beside what it returned.
CHANGED = "ChangedInPlace"
#: How many files are named that have such weights.
_FILES = 3
_BUNDLE = re.compile(rb"^bundle_id: '?([0-9a-f]{64})'?$", re.MULTILINE)


@dataclass
class Run:
    """What a job did, to be told at the end of the run: FAST-HEP's records of it, as plain data."""

    partition: PartitionData | None = None
    boundary: list[ProductOutline] = field(default_factory=list)
    operations: list[JsonObject] = field(default_factory=list)
    resources: JsonObject = field(default_factory=dict)
    hooks: list[JsonObject] = field(default_factory=list)
    warnings: list[JsonObject] = field(default_factory=list)


class _PartitionEntry(TypedDict):
    """A partition in the summary, with what was made of it."""

    partition: PartitionData
    outputs: list[ProductOutline]


class Summary(NamedTuple):
    """What the summary of a run is: its file, of how many partitions, and the reports' files."""

    path: Path
    partitions: int
    reports: list[Path]


@quick_yaml()
def summarise(
    plan: Plan,
    build: Path,
    *,
    runs: Iterable[Run],
    system: str,
    ran_on: Sequence[Mapping[str, object]],
    warnings: Iterable[JsonObject],
    hooks: Iterable[JsonObject],
    bundle_id: str | None,
    missing: Iterable[MissingPartition] = (),
    sample: SampleFacts | None = None,
) -> Summary:
    """Write ``run_summary.yaml`` and the workflow's reports, as FAST-HEP does at the end.

    ``system`` is the batch system that the run's jobs are sent to: as FAST-HEP does for Dask, the
    backend is what runs the jobs, and the strategy how it gets its workers. ``ran_on`` tells where
    they ran. ``missing`` are the partitions that the results lack; templates of reports find them
    in the summary. ``sample`` tells of how many the results are, if only some were asked for.
    """
    runs = list(runs)
    paths = upstream.BuildPaths.from_plan(plan, outdir=build)
    ran = {"backend": "snakemake", "strategy": "default" if system == "local" else system}
    partitions = _partition_entries(plan, runs)
    products = {"partitions": partitions} if partitions else {"outputs": _outputs(runs)}
    summary: dict[str, object] = {
        **ran,
        "success": True,
        "execution": {**plan.execution, **ran},
        "ran_on": ran_on,
        **products,
        "warnings": list(warnings),
        "hooks": {"enabled": list(hooks)},
    }
    lacking = [dict(partition) for partition in missing]
    if lacking:
        summary["missing_partitions"] = lacking
    if sample is not None:
        summary["sample"] = dict(sample)
    count = len(partitions)
    summary["progress"] = {
        "run_id": str(uuid.uuid4()),
        "counts": {
            "total": count + len(lacking),
            "pending": 0,
            "running": 0,
            "completed": count,
            "failed": len(lacking),
            "finished": count + len(lacking),
        },
    }
    if bundle_id is not None:
        summary["bundle_id"] = bundle_id
    path = Path(paths.run_summary())
    summary["summary_path"] = str(path)
    summary["artifacts_path"] = str(paths.artifacts_root())
    if paths.variation is not None:
        summary["variation"] = plan.context.get("variation") or {"name": paths.variation}
    return Summary(path, count + len(lacking), _write(plan, paths, summary))


def _write(plan: Plan, paths: Any, summary: Mapping[str, object]) -> list[Path]:
    """Write a summary, and the workflow's reports, which it names then; return their files."""
    upstream.write_run_summary(paths.root, summary, variation_name=paths.variation)
    reports = upstream.run_workflow_reports(plan, outdir=paths.root, summary=summary)
    if reports:
        whole = {**summary, "reports": reports}
        upstream.write_run_summary(paths.root, whole, variation_name=paths.variation)
    return [Path(report.get("path") or "") for report in reports or ()]


@quick_yaml()
def rewrite_as_named(plan: Plan, outdir: Path) -> tuple[JsonObject, list[str]]:
    """Write a run's summary and reports again, with the paths that ``outdir`` gives them.

    FAST-HEP's command writes the summary once more at its end, and names paths as its user has
    typed them. Returns the summary without the reports, which that command adds itself, and the
    files that have changed, relative to ``outdir``.
    """
    paths = upstream.BuildPaths.from_plan(plan, outdir=outdir)
    path = Path(paths.run_summary())
    summary = parse_written(path.read_bytes())
    added = {name: value for name, value in summary.items() if name != "reports"}
    named = {
        **added,
        "summary_path": str(path),
        "artifacts_path": str(paths.artifacts_root()),
    }
    if named == added:
        return named, []
    written = [path, *_write(plan, paths, named)]
    return named, [str(file.relative_to(outdir)) for file in written if outdir in file.parents]


def warnings_of(runs: Iterable[Run]) -> list[JsonObject]:
    """Return the warnings of all jobs, each with its partition, as FAST-HEP's have it."""
    warnings = []
    for run in runs:
        partition = run.partition
        for warning in run.warnings:
            if partition is not None and "partition_id" not in warning:
                named = {"partition_id": partition["id"], "dataset_name": partition["dataset"]}
                warning = {**warning, **named, "partition": dict(partition)}
            warnings.append(warning)
    return warnings


def told(plan: Plan, runs: Iterable[Run]) -> str:
    """Return what jobs warned of, once for each stage: a list for people, empty if of nothing.

    Of weights that are NaN or infinite, and of missing values, it gives the number, and names the
    files that have most of them.
    """
    counted: dict[tuple[str, str], Counter[str]] = {}
    changes: dict[str, dict[str, None]] = {}
    for warning in warnings_of(runs):
        if warning.get("category") not in (NOT_FINITE, DROPPED, CHANGED):
            continue
        stage = stage_of(plan.get_node(warning["node_id"]))
        if warning["category"] == CHANGED:
            changes.setdefault(stage, {}).update(dict.fromkeys(warning["changes"]))
            continue
        partition = warning.get("partition") or {}
        file = f"{partition.get('file')} (dataset {partition.get('dataset')!r})"
        counted.setdefault((stage, warning["category"]), Counter())[file] += warning["events"]
    text = ""
    for (stage, category), counts in counted.items():
        shown = [f"{count} in {file}" for file, count in counts.most_common(_FILES)]
        shown += [f"others in {len(counts) - _FILES} more files"] * (len(counts) > _FILES)
        problem = "values of its axis are missing (None), so they are in no bin"
        if category == NOT_FINITE:
            problem = "events have a NaN or infinite weight, which spoils their bins and sums"
        text += f"- stage {stage!r}: {counts.total()} {problem}: {', '.join(shown)}\n"
    for stage, changed in changes.items():
        text += (
            f"- stage {stage!r} changes {', '.join(changed)}: other stages do not see this "
            "change; they see only what this stage returns (docs/own-op.md)\n"
        )
    return text


def merged_hooks(runs: Iterable[Run]) -> list[JsonObject]:
    """Return the hooks' usage of all jobs as one list: calls added, results joined."""
    merged: dict[tuple[str, ...], JsonObject] = {}
    for run in runs:
        for item in run.hooks:
            name = tuple(str(item.get(part)) for part in ("source", "scope", "kind", "node"))
            entry = merged.get(name)
            if entry is None:
                merged[name] = (
                    {**item, "results": dict(item["results"])} if "results" in item else dict(item)
                )
                continue
            entry["calls"] = int(entry.get("calls") or 0) + int(item.get("calls") or 0)
            for key, value in (item.get("results") or {}).items():
                results = entry.setdefault("results", {})
                results[key] = _joined(results.get(key), value)
    return list(merged.values())


def relocate(value: _Value, old: str, new: str) -> _Value:
    """Return ``value`` with the folder ``old`` replaced by ``new`` in every path it holds."""
    moved: _Value = _relocated(value, old, new)
    return moved


def _relocated(value: object, old: str, new: str) -> Any:
    if isinstance(value, str):
        return value.replace(old, new) if old in value else value
    if isinstance(value, list):
        return [_relocated(item, old, new) for item in value]
    if type(value) is tuple:
        return tuple(_relocated(item, old, new) for item in value)
    if type(value) is dict:
        return {
            _relocated(key, old, new): _relocated(item, old, new) for key, item in value.items()
        }
    if isinstance(value, upstream.ArtifactReference):
        value.uri = _relocated(value.uri, old, new)
        value.metadata = _relocated(dict(value.metadata), old, new)
        value.provenance = _relocated(dict(value.provenance), old, new)
        return value
    if isinstance(value, upstream.ArtifactManifest):
        for part in value.parts:
            _relocated(part, old, new)
        return value
    if isinstance(value, os.PathLike):
        text = os.fspath(value)
        return type(value)(text.replace(old, new)) if old in text else value  # type: ignore[call-arg]
    return value


def bundle_id(compiled: Path) -> str | None:
    """Return what identifies what was compiled into a folder, if FAST-HEP's compiler says so."""
    return _identified(compiled / "inputs.manifest.yaml")


def renamed_bundle(build: Path, name: str) -> tuple[bytes, bytes] | None:
    """Return a run's summary as it is, and as it is to be: made of what is compiled now.

    An edit of a comment makes another bundle of the same results. ``None`` if ``name`` is no
    summary, or right.
    """
    path = Path(name)
    if path.name != _SUMMARY:
        return None
    variation = path.parent.name if path.parent.name else ""
    was, now = _identified(build / path), bundle_id(build / "compile" / variation)
    if was is None or now in (None, was):
        return None
    content = (build / path).read_bytes()
    return content, content.replace(was.encode(), str(now).encode())


def _identified(path: Path) -> str | None:
    # These may list many thousands of files, which YAML takes seconds to read.
    try:
        match = _BUNDLE.search(path.read_bytes())
    except OSError:
        return None
    return match[1].decode() if match else None


def listed(store: Mapping[Key, object]) -> list[ProductOutline]:
    """Return what nodes of no partition have made, as FAST-HEP's summary lists it."""
    return [
        {"node": node, "port": port, "type": type(value).__name__}
        for (node, port), value in store.items()
    ]


def _outputs(runs: Iterable[Run]) -> list[ProductOutline]:
    """Return what a run without partitions has made; the job that made something knows its type."""
    outlines: dict[Key, ProductOutline] = {}
    for item in (item for run in runs for item in run.boundary):
        kept: ProductOutline = {
            "node": item["node"],
            "port": item["port"],
            "type": item["type"],
        }
        outlines.setdefault((item["node"], item["port"]), kept)
    return [outlines[key] for key in sorted(outlines)]


def _partition_entries(plan: Plan, runs: Iterable[Run]) -> list[_PartitionEntry]:
    runs = list(runs)
    order = {node.id: index for index, node in enumerate(plan.nodes)}
    # Side products are handed to each partition, and with its products to what comes after it.
    side = [item for run in runs if run.partition is None for item in run.boundary]
    entries: dict[str, _PartitionEntry] = {}
    for run in runs:
        if run.partition is None:
            continue
        new = _PartitionEntry(partition=run.partition, outputs=[item.copy() for item in side])
        entry = entries.setdefault(run.partition["id"], new)
        entry["outputs"].extend(run.boundary)
    for entry in entries.values():
        entry["outputs"].sort(key=lambda item: order.get(item["node"], len(order)))
    return list(entries.values())


def _joined(before: Any, value: Any) -> object:
    if before is None:
        return value
    if isinstance(before, list) and isinstance(value, list):
        return [*before, *value]
    if isinstance(before, dict) and isinstance(value, dict):
        return {**before, **value}
    if type(before) in (int, float) and type(value) in (int, float):
        return before + value
    return value
