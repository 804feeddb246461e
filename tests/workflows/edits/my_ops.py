"""An operation of the analysis's own: the missing transverse momentum, calibrated."""

import awkward as ak
import numpy as np
from my_helper import FACTOR

SPEC = {
    "name": "my.calibrate",
    "kind": "transform",
    "version": "1.0",
    "input": {"name": "stream", "kind": "event_stream", "required": True},
    "params": {"output": {"required": True}},
    "result": {"kind": "event_stream"},
    "provides": {"symbols": [{"from": "params.output", "kind": "field_list"}]},
}


def calibrate(*, stream, output, **_):
    """Add the column ``output``."""
    return ak.with_field(stream, np.hypot(stream.MET_px, stream.MET_py) * FACTOR, output)
