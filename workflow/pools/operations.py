"""Stand-ins for the custom operations of FAST-HEP's pages on resource pools.

They do small, real work, so that the routing can be watched with events that have muons and jets.
"""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np


def _spec(name: str, inputs: list[str], output: str) -> dict[str, Any]:
    """Return the spec of an op that makes one column from some others."""
    return {
        "name": name,
        "kind": "transform",
        "version": "1.0",
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "params": {"inputs": {"default": inputs}, "output": {"default": output}},
        "normalize_params": {"defaults": True},
        "result": {"kind": "event_stream", "lineage": "preserve"},
        "requires": {"symbols": [{"from": "params.inputs", "kind": "field_list"}]},
        "provides": {"symbols": [{"from": "params.output", "kind": "field_list"}]},
    }


INDEX_SPEC = _spec("custom.index", ["Jet_Px", "Jet_Py"], "event_index")
INFERENCE_SPEC = _spec("custom.inference", ["Muon_Px", "Muon_Py", "Muon_Pz"], "score")


def index(*, stream: ak.Array, inputs: list[str], output: str, **_: Any) -> ak.Array:
    """Number the events of a partition by the sum of their jets' momenta, largest first."""
    px, py = (stream[name] for name in inputs)
    total = ak.to_numpy(ak.sum(np.sqrt(px**2 + py**2), axis=1))
    rank = np.empty(len(total), dtype=np.int64)
    rank[np.argsort(-total, kind="stable")] = np.arange(len(total))
    return ak.with_field(stream, rank, output)


def inference(*, stream: ak.Array, inputs: list[str], output: str, **_: Any) -> ak.Array:
    """Score events with a tiny network of fixed weights; the input is the muons' momenta."""
    momenta = np.stack([ak.to_numpy(ak.sum(stream[name], axis=1)) for name in inputs], axis=1)
    hidden = np.tanh(momenta / 100.0 @ np.array([[0.5, -0.25], [0.25, 0.5], [-0.5, 0.125]]))
    score = 1.0 / (1.0 + np.exp(-(hidden @ np.array([1.5, -0.75]))))
    return ak.with_field(stream, score, output)
