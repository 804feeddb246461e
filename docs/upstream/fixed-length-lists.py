"""Prints:

    x * score: [[1.0, 10.0, 100.0], [2.0, 20.0, 200.0], [3.0, 30.0, 300.0]]
    v is 1, 2 and 3 with weights 1, 10 and 100: [111.0, 111.0, 111.0]

Expected: `[[1.0], [20.0], [300.0]]`, and `[3.0, 30.0, 300.0]`, for any number of events.
"""

import awkward as ak
import numpy as np
from fasthep_carpenter.operations.define import run_define_transform
from fasthep_carpenter.operations.hist import run_hist_transform

ctx = {"primary_stream": "events"}
score = np.array([[1.0], [2.0], [3.0]])
stream = ak.Array({"x": np.array([1.0, 10.0, 100.0]), "score": score, "v": np.tile(score, 3)})
made = run_define_transform(
    stream=stream, variables=[{"name": "made", "expr": "x * score"}], ctx=ctx
)
print("x * score:", made.made.tolist())

axis = {"name": "v", "source": "v", "type": "regular", "bins": {"nbins": 3, "low": 1, "high": 4}}
filled = run_hist_transform(
    stream=stream, axes=[axis], storage="weighted", weight_expr="x", ctx=ctx
)
print("v is 1, 2 and 3 with weights 1, 10 and 100:", filled.values().tolist())
