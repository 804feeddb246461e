"""Operations of this analysis. workflow.yaml names them below `registry`.

An operation is two things: a function, and a specification that says what it reads and makes.
"""

import awkward as ak
import numpy as np

PAIR_MASS = {
    "name": "my.pair_mass",
    # A transform takes the events and returns them, with more columns or fewer events.
    "kind": "transform",
    "version": "1.0",
    "input": {"name": "stream", "kind": "event_stream", "required": True},
    "result": {"kind": "event_stream"},
    # What a stage can say below `params`: the arguments of the function.
    "params": {
        "collection": {"type": "string", "required": True},
        "mask": {"type": "string", "required": False, "default": None},
        "output": {"type": "string", "required": True},
    },
    # The columns that it reads: branches, which are then read from the files, or columns that a
    # stage before has made.
    "requires": {
        "symbols": [
            # Muon_pt, Muon_eta and Muon_phi, if a stage says `collection: Muon`.
            {"from": "params.collection", "kind": "field_prefix", "suffixes": ["pt", "eta", "phi"]},
            {"from": "params.mask", "kind": "field_list"},
        ]
    },
    # The columns that it makes. Without this, no later stage could use them.
    "provides": {"symbols": [{"from": "params.output", "kind": "field_list"}]},
}


def pair_mass(*, stream, collection, output, mask=None, ctx=None):
    """Add the mass of the two hardest particles that pass `mask`, 0 if there are fewer.

    `ctx` is always handed over: what is known of the dataset, such as ctx["dataset_name"].
    """
    pt, eta, phi = (stream[f"{collection}_{name}"] for name in ("pt", "eta", "phi"))
    if mask is not None:
        pt, eta, phi = pt[stream[mask]], eta[stream[mask]], phi[stream[mask]]
    order = ak.argsort(pt, ascending=False)
    pt, eta, phi = pt[order], eta[order], phi[order]

    pairs = ak.num(pt) >= 2
    pt, eta, phi = (ak.pad_none(values, 2) for values in (pt, eta, phi))
    angles = np.cosh(eta[:, 0] - eta[:, 1]) - np.cos(phi[:, 0] - phi[:, 1])
    mass = np.sqrt(2 * pt[:, 0] * pt[:, 1] * angles)
    return ak.with_field(stream, ak.where(pairs, ak.fill_none(mass, 0.0), 0.0), output)
