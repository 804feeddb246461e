"""The events of the benchmarks: the demo's, resampled to any size; made once and kept.

The momenta of an event are scaled by a number of its own whenever it is drawn: copies of a few
events would make files that are smaller than real ones.
"""

from __future__ import annotations

import importlib.util
import sys
import zlib
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import awkward as ak
import numpy as np
import uproot

__all__ = ["DATASETS", "sample", "samples", "sizes"]

_GENERATOR = Path(__file__).parents[2] / "workflow" / "demo" / "make_events.py"
_CODE = b"".join(path.read_bytes() for path in (Path(__file__), _GENERATOR))
#: Files that other code has made are not used.
CACHE = Path(__file__).parents[1] / ".cache" / "benchmarks" / f"{zlib.crc32(_CODE):08x}"
#: Events that are generated for a dataset; the others are drawn from these.
_GENERATED = 25_000
#: Events that are written at a time.
_STEP = 250_000

#: Each dataset's share of all events, and the demo's process that its events are like.
DATASETS: dict[str, tuple[float, str]] = {
    "data": (0.30, "data"),
    "dy": (0.20, "dy"),
    "ttbar": (0.12, "ttbar"),
    "wjets": (0.12, "wjets"),
    "qcd": (0.06, "wjets"),
    "single_top": (0.06, "ttbar"),
    "ww": (0.05, "ww"),
    "wz": (0.05, "ww"),
    "zz": (0.04, "dy"),
}


def sizes(total: int) -> dict[str, int]:
    """Return how many events each dataset has of ``total``."""
    return {name: max(round(total * share), 1) for name, (share, _) in DATASETS.items()}


def samples(total: int) -> dict[str, Path]:
    """Return a file for each dataset, ``total`` events in all."""
    return {name: sample(name, number) for name, number in sizes(total).items()}


def sample(name: str, number: int) -> Path:
    """Return a file with ``number`` events of a dataset; it is made if it is not there yet."""
    path = CACHE / f"{name}-{number}.root"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([list(DATASETS).index(name), number])
    events = _generated(name)
    partial = path.with_suffix(".partial")
    with uproot.recreate(partial, compression=uproot.ZSTD(1)) as output:
        output.mktree("events", {column: array.type for column, array in events.items()})
        for first in range(0, number, _STEP):
            output["events"].extend(_drawn(rng, events, min(_STEP, number - first)))
    partial.replace(path)
    return path


def _drawn(rng: np.random.Generator, events: dict[str, Any], number: int) -> dict[str, Any]:
    """Return so many of the events, each with momenta that are a little different."""
    chosen = rng.integers(0, _GENERATED, number)
    scale = ak.Array(rng.normal(1.0, 0.02, number).astype(np.float32))
    found = {column: array[chosen] for column, array in events.items()}
    for column in ("Muon", "Jet"):
        for name in ("Px", "Py", "Pz", "E"):
            found[column] = ak.with_field(found[column], found[column][name] * scale, name)
    return found


def _generated(name: str) -> dict[str, Any]:
    generator = _generator()
    rng = np.random.default_rng([7, list(DATASETS).index(name)])
    process = DATASETS[name][1]
    events: dict[str, Any] = (
        generator.make_data(rng, _GENERATED)
        if process == "data"
        else generator.make_simulation(rng, process, _GENERATED)
    )
    return {column: ak.to_packed(array) for column, array in events.items()}


@cache
def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_events_of_the_demo", _GENERATOR)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module
