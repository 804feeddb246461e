"""What the ttbar analysis needs beyond FAST-HEP's operations."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
from correctionlib import CorrectionSet

from fasthep_smk import rng

_STREAM = {"name": "stream", "kind": "event_stream", "required": True}

SUM = {
    "name": "agc.sum",
    "kind": "transform",
    "version": "1.0",
    "input": _STREAM,
    "params": {
        "column": {"type": "string", "required": True},
        "output": {"type": "string", "required": True},
    },
    "requires": {"symbols": [{"from": "params.column", "kind": "field_list"}]},
    "result": {"kind": "event_stream"},
    "provides": {"symbols": [{"from": "params.output", "kind": "field_list"}]},
}

TRIJET = {
    "name": "agc.trijet",
    "kind": "transform",
    "version": "1.0",
    "input": _STREAM,
    "params": {
        "jets": {"type": "string", "required": True},
        "b_tag": {"type": "number", "required": True},
        "output": {"type": "string", "required": True},
    },
    "requires": {
        "symbols": [
            {
                "from": "params.jets",
                "kind": "field_prefix",
                "suffixes": ["pt", "eta", "phi", "mass", "btag"],
            }
        ]
    },
    "result": {"kind": "event_stream"},
    "provides": {"symbols": [{"from": "params.output", "kind": "field_list"}]},
}

LOOKUP = {
    "name": "agc.lookup",
    "kind": "transform",
    "version": "1.0",
    "input": _STREAM,
    "params": {
        "file": {"type": "string", "required": True},
        "weights": {"type": "list[mapping]", "required": True},
    },
    "requires": {"symbols": [{"from": "params.weights.*.columns", "kind": "field_list"}]},
    "result": {"kind": "event_stream"},
    "provides": {"symbols": [{"from": "params.weights.*.name", "kind": "field_list"}]},
}

SMEAR = {
    "name": "agc.smear",
    "kind": "transform",
    "version": "1.0",
    "input": _STREAM,
    "params": {
        "like": {"type": "string", "required": True},
        "width": {"type": "number", "required": True},
        "output": {"type": "string", "required": True},
    },
    "requires": {"symbols": [{"from": "params.like", "kind": "field_list"}]},
    "result": {"kind": "event_stream"},
    "provides": {"symbols": [{"from": "params.output", "kind": "field_list"}]},
}


def total(*, stream: ak.Array, column: str, output: str, **_: Any) -> ak.Array:
    """Add the sum of a column over the objects of each event."""
    return ak.with_field(stream, ak.sum(stream[column], axis=1), output)


def trijet(*, stream: ak.Array, jets: str, b_tag: float, output: str, **_: Any) -> ak.Array:
    """Add the mass of a top quark's candidate: three jets, the ones with the largest momentum.

    At least one of the three has a tag above ``b_tag``. NaN where an event has no such three.
    Events are taken by their number of jets, which makes tables of them.
    """
    parts = {name: stream[f"{jets}_{name}"] for name in ("pt", "eta", "phi", "mass", "btag")}
    counts = ak.to_numpy(ak.num(parts["pt"]))
    mass = np.full(len(counts), np.nan)
    for number in np.unique(counts[counts >= 3]):
        rows = counts == number
        table = {
            name: ak.to_numpy(ak.flatten(values[rows])).astype(np.float64).reshape(-1, number)
            for name, values in parts.items()
        }
        mass[rows] = _hardest_mass(table, b_tag)
    return ak.with_field(stream, mass, output)


def _hardest_mass(jets: dict[str, np.ndarray], b_tag: float) -> np.ndarray:
    """Return the mass of each event's candidate, all events having as many jets."""
    pt = jets["pt"]
    px, py, pz = pt * np.cos(jets["phi"]), pt * np.sin(jets["phi"]), pt * np.sinh(jets["eta"])
    energy = np.sqrt(px**2 + py**2 + pz**2 + jets["mass"] ** 2)
    one, two, three = np.array(list(combinations(range(pt.shape[1]), 3))).T
    px, py, pz, energy = (v[:, one] + v[:, two] + v[:, three] for v in (px, py, pz, energy))
    tag = jets["btag"]
    tagged = np.maximum(np.maximum(tag[:, one], tag[:, two]), tag[:, three]) > b_tag
    squared = np.where(tagged, px**2 + py**2, -1.0)
    best = np.argmax(squared, axis=1)[:, None]
    px, py, pz, energy = (np.take_along_axis(v, best, 1)[:, 0] for v in (px, py, pz, energy))
    mass = np.sqrt(np.maximum(energy**2 - px**2 - py**2 - pz**2, 0.0))
    return np.where(tagged.any(axis=1), mass, np.nan)


def lookup(
    *, stream: ak.Array, file: str, weights: list[dict[str, Any]], ctx: dict[str, Any], **_: Any
) -> ak.Array:
    """Add weights from a file of corrections in the format of correctionlib, beside this module.

    Each of ``weights`` has the ``name`` of its column, the ``correction``, and its inputs:
    ``keys``, where ``dataset_group`` stands for the group of the dataset, and then ``columns``.
    """
    corrections = CorrectionSet.from_file(str(Path(__file__).parent / file))
    # Looked up by name: `ctx[key]` could be anything, and nothing would be shared any more.
    known = {"dataset_group": ctx["dataset_group"]}
    for weight in weights:
        keys = [known.get(key, key) for key in weight["keys"]]
        columns = [ak.to_numpy(stream[name]) for name in weight["columns"]]
        found = corrections[weight["correction"]].evaluate(*keys, *columns)
        stream = ak.with_field(stream, found, weight["name"])
    return stream


def smear(
    *, stream: ak.Array, like: str, width: float, output: str, ctx: dict[str, Any], **_: Any
) -> ak.Array:
    """Add random factors around one, of this relative width, one per object of ``like``."""
    counts = ak.num(stream[like])
    factors = rng(ctx).normal(1.0, width, int(ak.sum(counts)))
    return ak.with_field(stream, ak.unflatten(factors, counts), output)
