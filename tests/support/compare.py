"""Compare two build folders of the same workflow, product by product."""

from __future__ import annotations

import fnmatch
import json
import pickle
from typing import TYPE_CHECKING, Any

import awkward as ak
import numpy as np
import uproot

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

ROOTS = ("artifacts", "reports")

# Keys of JSON documents that differ between two runs of `fasthep run` itself.
VOLATILE_KEYS = frozenset(
    {
        "record",  # path of a provenance record, named by its content
        "record_hash",  # holds the random run id
        "run_id",
        "size_bytes",  # compressed ROOT files carry UUIDs and dates
        "adler32",
        "sha256",
        "created_at",
        "started_at",
        "finished_at",
        "generated_at",
        "timestamp",
        "duration",
        "duration_s",
        "elapsed",
        "elapsed_s",
        "cwd",
        "hostname",
        "fqdn",
        "pid",
        "command",
        "argv",
        "python_executable",
    }
)
# Keys of artifacts/provenance/execution.json that say what was computed, not where and when.
PROVENANCE_KEYS = ("workflow", "software", "partitions", "node_executions")
# Reports that list the run itself (files, hashes, times): only their presence is compared.
TEXT_ABOUT_THE_RUN = ("reports/provenance/*", "reports/*run_summary.yaml", "reports/diagnostics/*")


def compare_builds(reference: Path, ours: Path, *, ignore: Sequence[str] = ()) -> list[str]:
    """Differences between two build folders, one line each; none means equal.

    ``ignore`` holds glob patterns of paths relative to the build folder. Not compared:
    ``run_summary.yaml``, ``compile``, ``graph``, ``render`` and ``debug``; the keys of
    ``VOLATILE_KEYS``; and any text in which one folder's own path stands for the other's.
    """
    left, right = _files(reference, ignore), _files(ours, ignore)
    out = [f"{name}: only in the reference" for name in sorted(left - right)]
    out += [f"{name}: not in the reference" for name in sorted(right - left)]
    for name in sorted(left & right):
        try:
            found = _compare_file(name, reference, ours)
        except Exception as error:  # a broken file is a difference, and must not hide others
            found = [f"cannot be compared: {type(error).__name__}: {error}"]
        out += [f"{name}: {line}" for line in found]
    out += _compare_provenance(reference, ours, ignore)
    return out


def _files(build: Path, ignore: Iterable[str]) -> set[str]:
    names = set()
    for root in ROOTS:
        for path in (build / root).rglob("*"):
            name = path.relative_to(build).as_posix()
            if not path.is_file() or _is_provenance(name):
                continue
            if not any(fnmatch.fnmatch(name, pattern) for pattern in ignore):
                names.add(name)
    return names


def _is_provenance(name: str) -> bool:
    return name.startswith("artifacts/provenance/")


def _compare_file(name: str, reference: Path, ours: Path) -> list[str]:
    left, right = reference / name, ours / name
    if any(fnmatch.fnmatch(name, pattern) for pattern in TEXT_ABOUT_THE_RUN):
        return []
    if name.endswith(".pkl"):
        return _compare_pickles(left, right)
    if name.endswith(".root"):
        return _compare_root(left, right)
    if name.endswith(".json"):
        return list(
            _differences(
                _clean(json.loads(left.read_text(encoding="utf-8")), reference),
                _clean(json.loads(right.read_text(encoding="utf-8")), ours),
            )
        )
    if name.endswith((".md", ".html", ".txt", ".yaml")):
        texts = [
            p.read_text(encoding="utf-8")
            .replace(str(b.resolve()), "BUILD")
            .replace(str(b), "BUILD")
            for p, b in ((left, reference), (right, ours))
        ]
        return [] if texts[0] == texts[1] else [_first_line(texts[0], texts[1])]
    if left.read_bytes() != right.read_bytes():
        sizes = f"{left.stat().st_size} and {right.stat().st_size} bytes"
        return [f"content differs ({sizes})"]
    return []


def _first_line(left: str, right: str) -> str:
    for number, pair in enumerate(
        zip(left.splitlines(), right.splitlines(), strict=False), start=1
    ):
        if pair[0] != pair[1]:
            return f"line {number}: {pair[0]!r} != {pair[1]!r}"
    return f"{len(left.splitlines())} and {len(right.splitlines())} lines"


def _clean(value: Any, build: Path) -> Any:
    """JSON value without what differs between any two runs."""
    if isinstance(value, dict):
        return {k: _clean(v, build) for k, v in value.items() if k not in VOLATILE_KEYS}
    if isinstance(value, list):
        return [_clean(item, build) for item in value]
    if isinstance(value, str):
        return value.replace(str(build.resolve()), "BUILD").replace(str(build), "BUILD")
    return value


def _differences(left: Any, right: Any, where: str = "") -> Iterable[str]:
    """Paths at which two JSON values differ; 1 and 1.0 and True are different."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(k for k in right if k not in left)]:
            at = f"{where}.{key}" if where else str(key)
            if key not in right:
                yield f"{at}: only in the reference"
            elif key not in left:
                yield f"{at}: not in the reference"
            else:
                yield from _differences(left[key], right[key], at)
    elif isinstance(left, list) and isinstance(right, list):
        if len(left) != len(right):
            yield f"{where}: {len(left)} and {len(right)} items"
        for index, (a, b) in enumerate(zip(left, right, strict=False)):
            yield from _differences(a, b, f"{where}[{index}]")
    elif type(left) is not type(right) or not _same_scalar(left, right):
        yield f"{where}: {left!r} != {right!r}"


def _same_scalar(left: Any, right: Any) -> bool:
    return left == right or (left != left and right != right)


def _compare_pickles(left: Path, right: Path) -> list[str]:
    # Both were written by the tests themselves.
    a, b = (pickle.loads(path.read_bytes()) for path in (left, right))
    if type(a) is not type(b):
        return [f"type {type(a).__name__} != {type(b).__name__}"]
    if not hasattr(a, "axes"):
        return [] if a == b else ["values differ"]
    return compare_histograms(a, b)


def _said(one: Any) -> tuple[Any, Any]:
    """Name and label of a histogram or an axis; those of boost-histogram have none."""
    return getattr(one, "name", None), getattr(one, "label", None)


def compare_histograms(left: Any, right: Any) -> list[str]:
    """Bitwise comparison: axes with their metadata, storage type, all bins with flow."""
    out = []
    if len(left.axes) != len(right.axes):
        return [f"{len(left.axes)} and {len(right.axes)} axes"]
    for index, (a, b) in enumerate(zip(left.axes, right.axes, strict=True)):
        if type(a) is not type(b) or a != b or _said(a) != _said(b):
            out.append(f"axis {index}: {a!r} != {b!r}")
        elif repr(a.traits) != repr(b.traits):
            out.append(f"axis {index}: traits {a.traits!r} != {b.traits!r}")
    if left.storage_type is not right.storage_type:
        out.append(f"storage {left.storage_type.__name__} != {right.storage_type.__name__}")
    if _said(left) != _said(right):
        out.append("name or label differs")
    if out:
        return out
    a, b = left.view(flow=True), right.view(flow=True)
    if a.shape != b.shape or a.dtype != b.dtype:
        return [f"bins {a.dtype}{a.shape} != {b.dtype}{b.shape}"]
    if np.ascontiguousarray(a).tobytes() != np.ascontiguousarray(b).tobytes():
        values = left.values(flow=True), right.values(flow=True)
        different = int(np.sum(~np.isclose(*values, rtol=0, atol=0, equal_nan=True)))
        sums = f"sums {np.nansum(values[0])!r} and {np.nansum(values[1])!r}"
        out.append(f"{different} of {a.size} bins have other values ({sums}), or variances differ")
    return out


def _objects(file: Any) -> dict[str, str]:
    """Path in the file and class of everything that is no folder."""
    names = file.classnames(recursive=True, cycle=False)
    return {k: v for k, v in names.items() if v != "TDirectory"}


def _compare_root(left: Path, right: Path) -> list[str]:
    with uproot.open(left) as a, uproot.open(right) as b:
        kinds = _objects(a), _objects(b)
        if kinds[0] != kinds[1]:
            return [f"holds {kinds[0]} and {kinds[1]}"]
        out = []
        for name in kinds[0]:
            out += [f"{name}: {line}" for line in _compare_trees(a[name], b[name])]
        return out


def _compare_trees(left: Any, right: Any) -> list[str]:
    names = list(left.keys()), list(right.keys())
    if names[0] != names[1]:
        return [f"columns {names[0]} and {names[1]}"]
    if left.num_entries != right.num_entries:
        return [f"{left.num_entries} and {right.num_entries} entries"]
    if left.num_entries == 0:
        return []
    a, b = left.arrays(), right.arrays()
    return [
        f"column {name}: values differ"
        if a[name].type == b[name].type
        else f"column {name}: {a[name].type} != {b[name].type}"
        for name in a.fields
        if not ak.array_equal(
            a[name], b[name], equal_nan=True, dtype_exact=True, same_content_types=False
        )
    ]


def _provenance(build: Path, ignore: Sequence[str]) -> dict[str, Any]:
    """Provenance by artifact path: names and hashes of the records depend on the run id."""
    folder = build / "artifacts" / "provenance"
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        return {}
    content: dict[str, Any] = {}
    for item in json.loads(manifest.read_text(encoding="utf-8")).get("records", []):
        artifact = _clean(str(item["artifact"]), build)
        if any(fnmatch.fnmatch(artifact, pattern) for pattern in ignore):
            continue
        record = json.loads((build / item["record"]).read_text(encoding="utf-8"))
        content[f"record of {artifact}"] = _clean({**item, "content": record}, build)
    execution = folder / "execution.json"
    if execution.is_file():
        document = json.loads(execution.read_text(encoding="utf-8"))
        for key in PROVENANCE_KEYS:
            value = _clean(document.get(key), build)
            if isinstance(value, list):
                # The order is that of execution, which files in between need not keep.
                value = sorted(value, key=lambda item: json.dumps(item, sort_keys=True))
            content[f"execution.{key}"] = value
    return content


def _compare_provenance(reference: Path, ours: Path, ignore: Sequence[str]) -> list[str]:
    if any(fnmatch.fnmatch("artifacts/provenance/manifest.json", p) for p in ignore):
        return []
    left, right = _provenance(reference, ignore), _provenance(ours, ignore)
    return [f"artifacts/provenance: {line}" for line in _differences(left, right)]
