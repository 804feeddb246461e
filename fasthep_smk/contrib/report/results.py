"""What a build folder holds for physicists: cutflows, histograms, plots, other files."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fasthep_smk.util import files
from fasthep_smk.util.documents import JsonObject

__all__ = [
    "ARTIFACTS", "PICTURES", "Cut", "Cutflow", "HistogramSums", "ResultFile", "Skim", "by_dataset",
    "cutflows", "histograms", "loaded", "picture", "result_files", "skims",
]  # fmt: skip

ARTIFACTS = "artifacts"
#: What a browser shows, by how its name ends.
PICTURES = {
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".jpg": "image/jpeg",
    ".gif": "image/gif",
}
#: What is not for people, or is told elsewhere on the page.
_SKIPPED = {"histograms", "cutflows", "provenance"}
#: What reading a damaged manifest raises, or one of another version.
_DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


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
    """A cutflow: for each dataset, its cuts in their order."""

    name: str
    file: str
    rows: Sequence[Cut]


@dataclass(frozen=True)
class HistogramSums:
    """What a histogram holds, of one dataset where it has an axis of datasets.

    ``sum`` is that of all weights, ``outside`` the part of it in under- and overflow; ``entries``
    are the effective ones, the square of the sum over the sum of squares: without weights, simply
    their number.
    """

    name: str
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


def _variation(build: Path, path: Path, depth: int) -> str:
    """Return the variation that a file so deep in its folder is of, behind a name; or nothing."""
    variation = "/".join(path.relative_to(build / ARTIFACTS).parts[:-depth])
    return f" ({variation})" if variation else ""


def _listed(build: Path, kind: str) -> Iterator[tuple[str, Path]]:
    """Yield the title and the file of all results of a kind, variations in folders of their own."""
    for manifest in sorted((build / ARTIFACTS).glob(f"**/{kind}/manifest.json")):
        with contextlib.suppress(*_DAMAGED):
            for one in json.loads(files.read_plain(manifest))[kind]:
                path = build / str(one["path"])
                if path.resolve().is_relative_to(build.resolve()):
                    yield f"{one['id']}{_variation(build, manifest, 2)}", path


def cutflows(build: Path) -> list[Cutflow]:
    """Return the cutflows of a build folder that can be read."""
    found = []
    for title, path in _listed(build, "cutflows"):
        with contextlib.suppress(*_DAMAGED):
            told = json.loads(files.read_plain(path))
            rows = [row for name in map(str, told["datasets"]) for row in _cuts(told, name)]
            found.append(Cutflow(title, str(path.relative_to(build)), rows))
    return found


def _cuts(told: JsonObject, dataset: str) -> Iterator[Cut]:
    first: dict[str, float] = {}
    for node in told["nodes"]:
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
    found = []
    for title, path, histogram in loaded(build):
        # A pickle may hold what is no histogram.
        with contextlib.suppress(Exception):
            found += [*_sums(title, str(path.relative_to(build)), histogram)]
    return found


def loaded(build: Path) -> Iterator[tuple[str, Path, Any]]:
    """Yield the title and the file of each histogram, and itself: ``None`` if it cannot be read."""
    for title, path in _listed(build, "histograms"):
        # Imported when needed: it brings a library that takes a moment.
        from fasthep_smk.storage.pickles import load_histogram

        try:
            histogram: Any = load_histogram(files.read_plain(path))
        except (OSError, ValueError, pickle.UnpicklingError):
            histogram = None
        yield title, path, histogram


def by_dataset(histogram: Any) -> dict[str, Any]:
    """Return a histogram for each dataset where it has an axis of datasets, else by no name."""
    axes = [axis.name for axis in histogram.axes]
    if "dataset" not in axes:
        return {"": histogram}
    at = axes.index("dataset")
    axis = histogram.axes[at]
    return {str(dataset): histogram[{at: axis.index(dataset)}] for dataset in axis}


def _sums(name: str, file: str, histogram: Any) -> Iterator[HistogramSums]:
    axes = [axis.name or axis.label or "?" for axis in histogram.axes]
    at = axes.index("dataset") if "dataset" in axes else None
    sizes = [f"{len(axis)} of {name}" for axis, name in zip(histogram.axes, axes, strict=True)]
    bins = " × ".join(size for number, size in enumerate(sizes) if number != at)
    for dataset, one in by_dataset(histogram).items():
        values, variances = one.values(flow=True), one.variances(flow=True)
        total, inside = float(values.sum()), float(one.values().sum())
        squares = None if variances is None else float(variances.sum())
        yield HistogramSums(
            name=name,
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
    found: list[Skim] = []
    for path in sorted((build / ARTIFACTS).glob("**/files/*/manifest.json")):
        with contextlib.suppress(*_DAMAGED):
            told = json.loads(files.read_plain(path))
            name = f"{told['name']}{_variation(build, path, 3)}"
            found += [
                Skim(
                    name,
                    dataset,
                    events=int(of["total_entries"]),
                    files=[str(one["path"]) for one in of["files"]],
                    size=sum(int(one["size_bytes"]) for one in of["files"]),
                )
                for dataset, of in told["datasets"].items()
            ]
    return found


def result_files(build: Path) -> list[ResultFile]:
    """Return all other files for the user."""
    found = []
    for path in sorted((build / ARTIFACTS).rglob("*")):
        file = path.relative_to(build)
        if path.name != "manifest.json" and not _SKIPPED & {*file.parent.parts} and path.is_file():
            shown = path.suffix.lower() in PICTURES
            found.append(ResultFile(str(file), path.stat().st_size, shown))
    return found


def picture(path: Path) -> str:
    """Return a picture as a URL that holds it; a script in an SVG does not run in a picture."""
    content = base64.b64encode(files.read_plain(path)).decode("ascii")
    return f"data:{PICTURES[path.suffix.lower()]};base64,{content}"
