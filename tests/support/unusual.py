"""Workflows that are right and unusual, from ``tests/unusual``, and the data that they read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import uproot
import yaml

from . import events

__all__ = ["FOLDER", "environment", "load", "make_data", "write"]

FOLDER = Path(__file__).parents[1] / "unusual"
#: What a workflow has where it says nothing of its own.
USUAL = {
    "use": "use: {profiles: [hep]}",
    "data": """\
data:
  datasets:
    - {name: dy, files: [data/a.root, data/b.root]}
    - {name: data, eventtype: data, files: [data/c.root, data/d.root]}""",
}


def load() -> list[dict[str, Any]]:
    """Return all cases: name, workflow (a text), and perhaps files, chunk, variations, ignore."""
    return [
        {"file": path.stem, **case}
        for path in sorted(FOLDER.glob("*.yaml"))
        for case in yaml.safe_load(path.read_text(encoding="utf-8"))
    ]


def write(case: dict[str, Any], folder: Path, data: Path) -> Path:
    """Write the workflow of a case, and what lies beside it; return the workflow."""
    (folder / "data").symlink_to(data)
    for name, text in case.get("files", {}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    text = case["workflow"].replace("%HERE%", str(folder))
    has = yaml.safe_load(text)
    parts = [usual for key, usual in USUAL.items() if key not in has]
    workflow = folder / case.get("as", "workflow.yaml")
    workflow.write_text("\n".join([*parts, text]), encoding="utf-8")
    return workflow


def environment(folder: Path) -> dict[str, str]:
    """Return an environment in which modules beside the workflow are found by FAST-HEP, too."""
    return {**os.environ, "PYTHONPATH": str(folder)}


def make_data(folder: Path) -> Path:
    """Write all files that the workflows read; return their folder."""
    events.zmumu_file(folder / "-x #1 ?%20'q' \"d\" & ; $y.root", 9, 8)
    for seed, (name, n) in enumerate({"a": 40, "b": 25, "c": 30, "d": 20}.items()):
        events.zmumu_file(folder / f"{name}.root", n, seed, is_data=name in "cd")
    for name in ("no events", "nothing"):
        events.zmumu_file(folder / f"{name}.root", 0, 9)
    events.zmumu_file(folder / "one.root", 1, 10)
    events.zmumu_file(folder / "Größe & Maß/µ [1].root", 12, 11)
    events.nanoaod_file(folder / "nano.root", 40, 12)
    events.nanoaod_file(folder / "nano2.root", 30, 13)
    for seed in (14, 15):
        events.l1_file(folder / f"l1_{seed}.root", 25, seed)
    for seed in (16, 17):
        _kinds(folder / f"kinds_{seed}.root", 20, seed)
    return folder


def _kinds(path: Path, n: int, seed: int) -> None:
    """Write columns of many types, in a tree within folders, beside other trees and an RNTuple."""
    rng = np.random.default_rng(seed)
    number = rng.normal(0.0, 20.0, n)
    number[[3, 7, 11]] = np.nan, np.inf, -np.inf
    counts = rng.integers(0, 4, n)
    total = int(counts.sum())
    columns = {
        "flag": rng.random(n) < 0.5,
        "i8": rng.integers(-5, 5, n).astype("i1"),
        "u8": rng.integers(0, 9, n).astype("u1"),
        "u16": rng.integers(0, 9, n).astype("u2"),
        "u32": rng.integers(0, 9, n).astype("u4"),
        "u64": rng.integers(0, 9, n).astype("u8"),
        "i64": rng.integers(-9, 9, n),
        "number": number,
        "weight": rng.normal(0.3, 1.0, n),
        "triple": rng.normal(size=(n, 3)).astype("f4"),
        "flags": ak.unflatten(rng.random(total) < 0.5, counts),
        "codes": ak.unflatten(rng.integers(0, 9, total).astype("u4"), counts),
        "text": [f"run {c}" for c in rng.integers(0, 3, n)],
        "my.branch": rng.normal(size=n),
        "with-dash": rng.normal(size=n),
        "größe": rng.normal(size=n),
    }
    nested = ak.unflatten(ak.unflatten(rng.normal(size=total), np.ones(total, int)), counts)
    with uproot.recreate(path) as out:
        out.mktree("deep/er/kinds", columns)
        out.mktree("Runs", {"run": np.arange(2)})
        out.mkrntuple("table", {"x": rng.normal(size=n), "nested": nested})
