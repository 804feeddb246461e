"""Analyses larger than people have: each runs to the end once, and its numbers are checked."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import uproot

from . import workflows
from .measure import Failed, Measured
from .report import Result, Row
from .steps import Settings, Step, fresh, run, smk

__all__ = ["load"]

_DATASETS, _FILES, _EVENTS, _CHUNK = 500, 4, 50, 5
_STAGES, _VARIATIONS = 100, 60
_LONG = 20_000_000
_BINS = 10_000_000
_COLUMNS = 1_000
_OBJECTS = 1_000_000


def load(settings: Settings) -> Result:
    """Return what analyses take that are large in one way each; every one of them runs once."""
    steps = list(_steps(settings.folder))
    found = run(steps, replace(settings, repeats=1))
    return Result(
        "load",
        "Analyses that are large in one way each, run once with `-j 2`; their numbers are checked.",
        [Row(step.name, found[step.name]) for step in steps],
        [],
        [
            f"{step.name}: memory of all processes together at most "
            f"{found[step.name][0].tree / 1e9:.1f} GB"
            for step in steps
        ],
    )


def _steps(folder: Path) -> Iterator[Step]:
    files = _DATASETS * _FILES
    partitions = files * _EVENTS // _CHUNK
    name = f"{partitions:,} partitions of {files:,} files in {_DATASETS} datasets"
    command = smk("many.yaml", "-o", "many", "-j", "2", "--chunk-size", str(_CHUNK))
    check = _expect(folder / "many", "Sum", files * _EVENTS)
    yield Step(name, command, _prepare(_many, folder, "many"), check)
    yield Step(f"{name}, again", command, after=check)
    command = smk("wide.yaml", "-o", "wide", "-j", "2")
    check = _expect(folder / "wide", "Histogram99", 2_000, varied=_VARIATIONS)
    name = f"{_STAGES} stages under {_VARIATIONS} variations"
    yield Step(name, command, _prepare(_wide, folder, "wide"), check)
    yield Step(f"{name}, again", command, after=check)
    yield _once(folder, f"one file of {_LONG:,} events", _long, _LONG, "--chunk-size", "1000000")
    yield _once(folder, f"a histogram of {_BINS:,} bins", _bins, 2_000, "--chunk-size", "500")
    by_stage = ("--granularity", "stage")
    total = 2_000 * sum(range(_COLUMNS))
    yield _once(folder, f"{_COLUMNS:,} columns between two jobs", _columns, total, *by_stage)
    yield _once(folder, f"one event with {_OBJECTS:,} objects", _objects, 10, *by_stage)


def _once(
    folder: Path, what: str, make: Callable[[Path], dict[str, Any]], entries: float, *options: str
) -> Step:
    """Return a run of a workflow whose histogram ``Sum`` holds so many entries in the end."""
    name = make.__name__.removeprefix("_")
    command = smk(f"{name}.yaml", "-o", name, "-j", "2", *options)
    check = _expect(folder / name, "Sum", entries)
    return Step(what, command, _prepare(make, folder, name), check)


def _prepare(make: Callable[[Path], dict[str, Any]], folder: Path, name: str) -> Callable[[], None]:
    def prepare() -> None:
        fresh(folder / name)()
        workflows.write(make(folder), folder, f"{name}.yaml")

    return prepare


def _expect(
    build: Path, stage: str, entries: float, *, varied: int = 0
) -> Callable[[Measured], None]:
    """Return a check that a histogram holds all events, in all variations."""

    def check(_: Measured) -> None:
        found = sorted(build.glob(f"artifacts/**/histograms/{stage}.pkl"))
        if len(found) != varied + 1:
            raise Failed(f"{len(found)} variations of {stage} in place of {varied + 1}")
        for path in found:
            histogram = pickle.loads(path.read_bytes())
            total = float(histogram.sum(flow=True).value)
            scale = 2.0 if path.parts[-3].startswith("double") else 1.0
            if not np.isclose(total, scale * entries, rtol=1e-6):
                raise Failed(f"{path}: {total:.0f} in place of {scale * entries:.0f}")

    return check


def _document(datasets: dict[str, list[str]], branches: list[str]) -> dict[str, Any]:
    return {
        "version": "1.0",
        "use": {"profiles": ["hep"]},
        "data": {
            "defaults": {"eventtype": "mc", "tree_primary": "events"},
            "datasets": [{"name": name, "files": files} for name, files in datasets.items()],
        },
        "sources": {"events": {"kind": "root_tree", "tree": "events", "branches": branches}},
        "analysis": {"stages": []},
    }


def _sum(source: str = "x", weight: str = "one", bins: int = 10) -> dict[str, Any]:
    axis = {"name": "x", "source": source, "type": "regular"}
    return {
        "id": "Sum",
        "op": "hep.hist",
        "params": {
            "storage": "weighted",
            "weight_expr": weight,
            "axes": [{**axis, "bins": {"low": 0, "high": 1, "nbins": bins}}],
        },
    }


def _define(name: str, expression: str) -> dict[str, Any]:
    variables = [{"name": name, "expr": expression}]
    return {"id": f"Define_{name}", "op": "hep.define", "params": {"variables": variables}}


def _write(path: Path, number: int, **more: Any) -> None:
    """Write events: ``x`` in [0, 1), ``one`` is 1."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    with uproot.recreate(path) as file:
        for start in range(0, number, 1_000_000):
            count = min(1_000_000, number - start)
            content = {
                "x": rng.random(count, np.float32),
                "one": np.ones(count, np.float32),
                **more,
            }
            if start == 0:
                file["events"] = content
            else:
                file["events"].extend(content)


def _many(folder: Path) -> dict[str, Any]:
    """So many files are copies of one."""
    real = folder / "many_data/real.root"
    _write(real, _EVENTS)
    datasets: dict[str, list[str]] = {}
    for number in range(_DATASETS * _FILES):
        name = f"many_data/{number}.root"
        shutil.copyfile(real, folder / name)
        datasets.setdefault(f"dataset{number % _DATASETS}", []).append(name)
    document = _document(datasets, ["x", "one"])
    document["analysis"]["stages"] = [_sum()]
    return document


def _wide(folder: Path) -> dict[str, Any]:
    """Columns that follow from each other, and a histogram of each."""
    _write(folder / "wide.root", 2_000)
    document = _document({"a": ["wide.root"]}, ["x", "one"])
    stages: list[dict[str, Any]] = []
    for number in range(_STAGES // 2):
        before = f"Column{number - 1}" if number else "x"
        variables = [{"name": f"Column{number}", "expr": f"{before} * 1.0"}]
        stages.append(
            {"id": f"Define{number}", "op": "hep.define", "params": {"variables": variables}}
        )
    half = _STAGES // 2
    stages += [{**_sum(f"Column{n}"), "id": f"Histogram{half + n}"} for n in range(half)]
    document["analysis"]["stages"] = stages
    document["systematics"] = {
        "include_nominal": True,
        "variations": [
            {"name": f"double{number}", "weight": {"multiply": ["2.0"]}}
            for number in range(_VARIATIONS)
        ],
    }
    return document


def _long(folder: Path) -> dict[str, Any]:
    _write(folder / "long.root", _LONG)
    document = _document({"a": ["long.root"]}, ["x", "one"])
    document["analysis"]["stages"] = [_sum()]
    return document


def _bins(folder: Path) -> dict[str, Any]:
    _write(folder / "bins.root", 2_000)
    document = _document({"a": ["bins.root"]}, ["x", "one"])
    document["analysis"]["stages"] = [_sum(bins=_BINS)]
    return document


def _columns(folder: Path) -> dict[str, Any]:
    """All columns are filled into one histogram, as a weight that is their sum."""
    names = [f"c{number}" for number in range(_COLUMNS)]
    values = {name: np.full(2_000, number, np.float32) for number, name in enumerate(names)}
    _write(folder / "columns.root", 2_000, **values)
    document = _document({"a": ["columns.root"]}, ["x", "one", *names])
    starts = range(0, _COLUMNS, 50)
    stages = [_define(f"S{start}", " + ".join(names[start : start + 50])) for start in starts]
    stages.append(_define("total", " + ".join(f"S{start}" for start in starts)))
    document["analysis"]["stages"] = [*stages, _sum(weight="total")]
    return document


def _objects(folder: Path) -> dict[str, Any]:
    """Ten events, one of them with very many objects, of which the largest is taken."""
    counts = [3, 0, _OBJECTS, *[2] * 7]
    rng = np.random.default_rng(2)
    objects = ak.unflatten(rng.random(sum(counts)).astype(np.float32), counts)
    _write(folder / "objects.root", 10, pt=objects)
    document = _document({"a": ["objects.root"]}, ["one", "pt"])
    document["analysis"]["stages"] = [_define("lead", "leading(pt)"), _sum("lead")]
    return document
