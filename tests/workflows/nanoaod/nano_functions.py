"""Functions, constants and one transform of this workflow's own."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np

PT_CAP = 300.0

JET_VECTORS_SPEC = {
    "name": "nano.jet_vectors",
    "kind": "transform",
    "version": "1.0",
    "input": {"name": "stream", "kind": "event_stream", "required": True},
    "params": {"source": {"required": True}, "output": {"required": True}},
    "result": {"kind": "event_stream"},
    "requires": {
        "symbols": [
            {
                "from": "params.source",
                "kind": "field_prefix",
                "suffixes": ["pt", "eta", "phi", "mass"],
            }
        ]
    },
    "provides": {"symbols": [{"from": "params.output", "kind": "field_list"}]},
}


def clip_at(values: Any, maximum: float) -> Any:
    """Values, at most ``maximum``."""
    return np.minimum(values, maximum)


def jet_vectors(*, stream: ak.Array, source: str, output: str, **_: Any) -> ak.Array:
    """Add the jets as named records; only their behaviour knows ``p`` or ``rapidity``."""
    parts = {name: stream[f"{source}_{name}"] for name in ("pt", "eta", "phi", "mass")}
    return ak.with_field(stream, ak.zip(parts, with_name="Momentum4D"), output)
