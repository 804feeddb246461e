"""What a build folder holds for physicists: cutflows, histograms, plots, other files."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import pickle
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from fasthep_smk.storage import layout
from fasthep_smk.util import files
from fasthep_smk.util.documents import JsonObject

_T = TypeVar("_T")

_ARTIFACTS = "artifacts"
#: What a browser shows as a picture, by how its name ends.
_PICTURES = {
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".jpg": "image/jpeg",
    ".gif": "image/gif",
}
#: What is not for people, or is told elsewhere on the page.
_SKIPPED = {"histograms", "cutflows", "provenance"}
#: What reading a damaged manifest raises, or one of another version.
_DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
#: Where FAST-HEP lists the systematic variations, and how two of them are called that make a pair.
_VARIATIONS = "compile/systematics.yaml"
_PAIRED = re.compile(r"[\W_]?(up|down)$", re.IGNORECASE)


@dataclass(frozen=True)
class Cut:
    """The events of a dataset before and after a cut, and the sum of weights after it.

    ``share`` is what the cut keeps, ``total`` what is left of all events before the first cut of
    its selection.
    """

    dataset: str
    selection: str
    cut: str
    before: int
    after: int
    share: float | None
    total: float | None
    weights: float
    error: float


@dataclass(frozen=True)
class Cutflow:
    """A cutflow: for each dataset, its cuts in their order.

    ``variation`` is the systematic variation that it is of, if there are any, and is in its name.
    """

    name: str
    stage: str
    variation: str
    file: str
    rows: Sequence[Cut]


@dataclass(frozen=True)
class HistogramSums:
    """What a histogram holds, of one dataset where it has an axis of datasets.

    ``variation`` is as in `Cutflow`. ``sum`` is that of all weights, ``outside`` the part of it in
    under- and overflow; ``entries`` are the effective ones, the square of the sum over the sum of
    squares: without weights, simply their number.
    """

    name: str
    stage: str
    variation: str
    file: str
    dataset: str
    bins: str
    sum: float
    outside: float
    error: float | None
    entries: float | None


@dataclass(frozen=True)
class Skim:
    """What an output of events has written of a dataset: how many, their files, and bytes."""

    name: str
    dataset: str
    events: int
    files: Sequence[str]
    size: int


@dataclass(frozen=True)
class ResultFile:
    """A file for the user, its size in bytes, and whether a browser shows it as a picture."""

    file: str
    size: int
    shown: bool


def variations(build: Path) -> dict[str, str]:
    """Return the systematic variations of a build folder in their order, and the group of each.

    Up and down are a group, by their names (``NAME_up``) or as the workflow says it (``group`` and
    ``direction``); any other variation is one of its own.
    """
    groups = dict[str, str]()
    with contextlib.suppress(yaml.YAMLError, *_DAMAGED):
        for row in yaml.safe_load(files.read_plain(build / _VARIATIONS))["variations"]:
            name, stated, own = row["name"], row.get("group"), group(row["name"])
            is_told = own == name and "direction" in row and isinstance(stated, str)
            groups[name] = stated if is_told else own
    return groups


def group(variation: str) -> str:
    """Return what a variation and its opposite are called together; its name if it has none."""
    return _PAIRED.sub("", variation) or "up and down"


def compared(results: Mapping[str, _T], older: Collection[str]) -> list[tuple[str, dict[str, _T]]]:
    """Return results that may be compared: those of variations with nominal, which is the first.

    An ``older`` result, and each where there is no nominal one, stands for itself, with its name.
    """
    current = {name: result for name, result in results.items() if name not in older}
    together = current if current.keys() & {"", "nominal"} else {}
    alone = [(name, {name: result}) for name, result in results.items() if name not in together]
    return [*([("", together)] if together else []), *alone]


def weight_axes(build: Path) -> set[str]:
    """Return the names of axes that FAST-HEP makes for the ``variations`` of histograms."""
    for plan in sorted((build / layout.PLANS).glob("*.json"))[:1]:
        with contextlib.suppress(*_DAMAGED):
            nodes = json.loads(files.read_plain(plan))["nodes"]
            axes = [axis for node in nodes for axis in node["params"].get("axes", ())]
            return {axis["name"] for axis in axes if axis.get("source") == "__variation__"}
    return set()


def title(name: str, variation: str) -> str:
    """Return how a result is called, with its variation if it is of one."""
    return f"{name} ({variation})" if variation else name


def _variation(build: Path, path: Path, depth: int) -> str:
    """Return the variation that a file so deep in its folder is of, or nothing."""
    return "/".join(path.relative_to(build / _ARTIFACTS).parts[:-depth])


def listed(build: Path, kind: str) -> Iterator[tuple[str, str, Path]]:
    """Yield the stage, the variation and the file of all results of a kind, nominal ones first."""
    order = ["", "nominal", *variations(build)]
    rows = list[tuple[str, str, Path]]()
    for manifest in sorted((build / _ARTIFACTS).glob(f"**/{kind}/manifest.json")):
        with contextlib.suppress(*_DAMAGED):
            for row in json.loads(files.read_plain(manifest))[kind]:
                path = build / str(row["path"])
                if path.resolve().is_relative_to(build.resolve()):
                    rows.append((str(row["id"]), _variation(build, manifest, 2), path))
    yield from sorted(rows, key=lambda row: order.index(row[1]) if row[1] in order else len(order))


def cutflows(build: Path) -> list[Cutflow]:
    """Return the cutflows of a build folder that can be read."""
    readable = []
    for stage, variation, path in listed(build, "cutflows"):
        with contextlib.suppress(*_DAMAGED):
            content = json.loads(files.read_plain(path))
            rows = [
                row for dataset in map(str, content["datasets"]) for row in _cuts(content, dataset)
            ]
            name, file = title(stage, variation), str(path.relative_to(build))
            readable.append(Cutflow(name, stage, variation, file, rows))
    return readable


def by_cut(cutflow: Cutflow) -> dict[tuple[str, str, int, str], Cut]:
    """Return the rows of a cutflow by selection, cut and dataset; a cut may stand there twice."""
    rows, seen = dict[tuple[str, str, int, str], Cut](), Counter[tuple[str, str, str]]()
    for row in cutflow.rows:
        place = (row.selection, row.cut, row.dataset)
        rows[row.selection, row.cut, seen[place], row.dataset] = row
        seen[place] += 1
    return rows


def _cuts(content: JsonObject, dataset: str) -> Iterator[Cut]:
    first: dict[str, float] = {}
    for node in content["nodes"]:
        stats = node["stats"].get(dataset)
        if stats is None:
            continue
        before, after = float(stats["n_unweighted_in"]), float(stats["n_unweighted_out"])
        all_events = first.setdefault(str(node["selection"]), before)
        yield Cut(
            dataset=dataset,
            selection=str(node["selection"]),
            cut=str(node.get("label") or node.get("expr") or node["id"]),
            before=int(before),
            after=int(after),
            share=after / before if before else None,
            total=after / all_events if all_events else None,
            weights=float(stats["sumw_out"]),
            error=math.sqrt(max(0.0, float(stats["sumw2_out"]))),
        )


def histograms(build: Path) -> list[HistogramSums]:
    """Return what the histograms hold, one entry for each dataset where they have such an axis."""
    sums = []
    for stage, variation, path in listed(build, "histograms"):
        # Its axes and annotations may be such as no run makes.
        with contextlib.suppress(Exception):
            sums += [*_sums(stage, variation, str(path.relative_to(build)), histogram(path))]
    return sums


def histogram(path: Path) -> Any:
    """Return the histogram in a file, whoever has written it; ``None`` if it holds none."""
    # Imported when needed: it brings a library that takes a moment.
    from fasthep_smk.storage.pickles import load_histogram

    try:
        return load_histogram(files.read_plain(path))
    except (OSError, ValueError, pickle.UnpicklingError):
        return None


def by_dataset(histogram: Any) -> dict[str, Any]:
    """Return a histogram for each dataset where it has an axis of datasets, else by no name."""
    axes = [axis.name for axis in histogram.axes]
    if "dataset" not in axes:
        return {"": histogram}
    return along(histogram, axes.index("dataset"))


def along(histogram: Any, at: int) -> dict[str, Any]:
    """Return a histogram for each category of one of its axes."""
    axis = histogram.axes[at]
    return {str(category): histogram[{at: axis.index(category)}] for category in axis}


def _sums(stage: str, variation: str, file: str, histogram: Any) -> Iterator[HistogramSums]:
    axes = [axis.name or axis.label or "?" for axis in histogram.axes]
    at = axes.index("dataset") if "dataset" in axes else None
    sizes = [f"{len(axis)} of {name}" for axis, name in zip(histogram.axes, axes, strict=True)]
    bins = " × ".join(size for number, size in enumerate(sizes) if number != at)
    for dataset, part in by_dataset(histogram).items():
        values, variances = part.values(flow=True), part.variances(flow=True)
        total, inside = float(values.sum()), float(part.values().sum())
        squares = None if variances is None else float(variances.sum())
        yield HistogramSums(
            name=title(stage, variation),
            stage=stage,
            variation=variation,
            file=file,
            dataset=dataset,
            bins=bins,
            sum=total,
            # What is left of rounding is nothing.
            outside=0.0 if math.isclose(total, inside, rel_tol=1e-9) else total - inside,
            error=None if squares is None else math.sqrt(max(0.0, squares)),
            entries=total**2 / squares if squares else None,
        )


def skims(build: Path) -> list[Skim]:
    """Return what was written of events, for each such output and dataset."""
    outputs: list[Skim] = []
    for path in sorted((build / _ARTIFACTS).glob("**/files/*/manifest.json")):
        with contextlib.suppress(*_DAMAGED):
            content = json.loads(files.read_plain(path))
            name = title(str(content["name"]), _variation(build, path, 3))
            outputs += [
                Skim(
                    name,
                    dataset,
                    events=int(of["total_entries"]),
                    files=[str(file["path"]) for file in of["files"]],
                    size=sum(int(file["size_bytes"]) for file in of["files"]),
                )
                for dataset, of in content["datasets"].items()
            ]
    return outputs


def result_files(build: Path) -> list[ResultFile]:
    """Return all other files for the user."""
    others = []
    for path in sorted((build / _ARTIFACTS).rglob("*")):
        file = path.relative_to(build)
        if path.name != "manifest.json" and not _SKIPPED & {*file.parent.parts} and path.is_file():
            shown = path.suffix.lower() in _PICTURES
            others.append(ResultFile(str(file), path.stat().st_size, shown))
    return others


def picture(path: Path) -> str:
    """Return a picture as a URL that holds it; a script in an SVG does not run in a picture."""
    content = base64.b64encode(files.read_plain(path)).decode("ascii")
    return f"data:{_PICTURES[path.suffix.lower()]};base64,{content}"
