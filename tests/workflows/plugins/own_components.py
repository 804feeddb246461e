"""Own source, transforms, observer, sinks, product kind, hook and modifier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
from hepflow.build_layout import BuildPaths
from hepflow.model.hooks import ExecutionHook
from hepflow.model.io import OutputResult
from hepflow.runtime.materialize import product_id

OFFSET = 3.0
STREAM = {"name": "stream", "kind": "event_stream", "required": True}

NUMBERS_SPEC = {
    "name": "own.numbers",
    "kind": "source",
    "version": "1.0",
    "input": None,
    "params": {"scale": {"required": False, "default": 1.0}},
    "result": {"kind": "event_stream"},
}
SHIFT_SPEC = {
    "name": "own.shift",
    "kind": "transform",
    "version": "1.0",
    "input": STREAM,
    "params": {"field": {"required": True}, "by": {"required": True}},
    "result": {"kind": "event_stream"},
    "requires": {"symbols": [{"from": "params.field", "kind": "field_list"}]},
    "provides": {"symbols": [{"kind": "template", "template": "{params.field}_shifted"}]},
}
SUM_SPEC = {
    "name": "own.sum",
    "kind": "transform",
    "version": "1.0",
    "input": STREAM,
    "params": {"fields": {"required": True}},
    # Without an event stream among the outputs upstream takes the op for a global one.
    "result": {"stream": {"kind": "event_stream"}, "total": {"kind": "own_sum"}},
    "requires": {"symbols": [{"from": "params.fields", "kind": "field_list"}]},
}
LENGTH_SPEC = {
    "name": "own.length",
    "kind": "observer",
    "version": "1.0",
    "input": {"name": "target", "required": True},
    "params": {"out": {"required": True}},
    "result": {"report": {"kind": "report"}},
}
LINES_SPEC = {
    "name": "own.lines",
    "kind": "sink",
    "version": "1.0",
    "input": {"name": "target", "kind": "event_stream", "required": True},
    "params": {"path": {"required": True}, "fields": {"required": True}},
    "result": {"artifact": {"kind": "artifact"}},
    "requires": {"symbols": [{"from": "params.fields", "kind": "field_list"}]},
}
SUM_TABLE_SPEC = {
    "name": "own.sum_table",
    "kind": "sink",
    "version": "1.0",
    "input": {"name": "target", "required": True},
    "params": {"path": {"required": True}},
    "result": {"artifact": {"kind": "artifact"}},
}
TRACE_SPEC = {
    "name": "own.trace",
    "kind": "hook",
    "version": "1.0",
    "lifecycle": {"events": ["partition_start", "dataset_end", "run_end"]},
}


def double(values: Any) -> Any:
    """Twice the values."""
    return values * 2.0


def run_numbers(*, scale: float = 1.0, ctx: Any = None, **_: Any) -> ak.Array:
    """Numbers read from the partition's text file, within its entry range."""
    partition = dict(ctx["partition"])
    values = np.loadtxt(partition["file"])
    values = values[partition.get("start") : partition.get("stop")]
    return ak.Array({"x": values * scale, "y": np.sin(values), "count": values.astype(np.int64)})


def run_shift(*, stream: ak.Array, field: str, by: float, **_: Any) -> ak.Array:
    """Add ``<field>_shifted``."""
    return ak.with_field(stream, stream[field] + by, f"{field}_shifted")


def run_sum(*, stream: ak.Array, fields: list[str], **_: Any) -> dict[str, Any]:
    """Sums of some columns, a product kind of its own."""
    total = {"entries": len(stream), **{f: float(ak.sum(stream[f])) for f in fields}}
    return {"stream": stream, "total": total}


def combine_sums(left: dict[str, Any], right: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Add two sums."""
    return {key: left[key] + right[key] for key in left}


def merge_sums(values: list[dict[str, Any]], **_: Any) -> dict[str, Any]:
    """Add any number of sums, in order."""
    total = values[0]
    for value in values[1:]:
        total = combine_sums(total, value)
    return total


def materialize_sum(
    value: dict[str, Any], *, node: Any, build_paths: BuildPaths, **_: Any
) -> dict[str, Any]:
    """Write the total below ``artifacts/sums``."""
    name = product_id(node)
    path = build_paths.artifact("sums", f"{name}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, sort_keys=True), encoding="utf-8")
    item = {"id": name, "path": build_paths.relative_to_root(path).as_posix(), "producer": node.id}
    return {"value": value, "items": [item]}


def run_length(*, target: Any, out: str, ctx: Any = None, **_: Any) -> dict[str, Any]:
    """Report how many entries go by; one file per dataset and partition."""
    partition = dict(ctx.get("partition") or {})
    report = {"entries": len(target), "partition": partition.get("id")}
    path = Path(str(ctx["outdir"])) / "reports" / out / f"{partition.get('id')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, sort_keys=True), encoding="utf-8")
    return report


def run_lines(
    target: Any, *, path: str, fields: list[str], ctx: Any = None, meta: Any = None
) -> OutputResult:
    """Write columns as text."""
    del meta
    out = Path(path)
    out.parent.mkdir(parents=True, exist_ok=True)
    columns = [np.asarray(target[field]) for field in fields]
    text = "".join(" ".join(f"{v:.9g}" for v in row) + "\n" for row in zip(*columns, strict=True))
    out.write_text(text, encoding="utf-8")
    result = OutputResult(kind="artifact", path=str(out), format="text", metadata={})
    result.dataset_name = str(ctx.get("dataset_name"))
    return result


def run_sum_table(target: Any, *, path: str, ctx: Any = None, meta: Any = None) -> OutputResult:
    """Write a total as text."""
    del ctx, meta
    out = Path(path)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(f"{k} {v!r}\n" for k, v in target.items()), encoding="utf-8")
    return OutputResult(kind="artifact", path=str(out), format="text", metadata={})


class Negate:
    """Modifier that hands the node its input with one column negated."""

    def __init__(self, *, field: str) -> None:
        self.field = field

    def before_node(self, *, inputs: dict[str, Any], **_: Any) -> None:
        stream = inputs["stream"]
        inputs["stream"] = ak.with_field(stream, -stream[self.field], self.field)


class Trace(ExecutionHook):
    """Hook that counts what it sees and puts a value into the context."""

    name = "own.trace"

    def __init__(self, label: str = "none") -> None:
        super().__init__(label=label)
        self.seen: list[str] = []

    def partition_start(self, *, partition: Any, ctx: dict[str, Any]) -> None:
        self.seen.append(str(getattr(partition, "id", partition)))
        ctx["trace_label"] = self.params["label"]

    def dataset_end(self, *, dataset_name: str, **_: Any) -> None:
        self.seen.append(dataset_name)

    def run_end(self, *, summary: dict[str, Any], **_: Any) -> None:
        summary["trace"] = {"label": self.params["label"]}
