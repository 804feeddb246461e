"""Prints:

    of x 0.5, None, 1.5 and y None, 1.5, 0.5: [[0, 1], [1, 0]]
    20**2 + 1**2 = 145.0

Expected: for the first line, an error that says which column has missing values. For the second
line, 401 or an error.
"""

import awkward as ak
import numpy as np
from fasthep_carpenter.operations.cutflow import run_cutflow_transform
from fasthep_carpenter.operations.hist import run_hist_transform

ctx = {"primary_stream": "events", "node_id": "stage.A"}
bins = {"nbins": 2, "low": 0, "high": 2}
axes = [{"name": name, "source": name, "type": "regular", "bins": bins} for name in ("x", "y")]

stream = ak.Array([{"x": 0.5, "y": None}, {"x": None, "y": 1.5}, {"x": 1.5, "y": 0.5}])
filled = run_hist_transform(stream=stream, axes=axes, ctx=ctx)
print("of x 0.5, None, 1.5 and y None, 1.5, 0.5:", filled.values().astype(int).tolist())

weights = ak.Array({"x": np.ones(2), "w": np.array([20, 1], "uint8")})
cuts = {"stream": weights, "selection": {"All": ["x > 0"]}, "weight_expr": "w", "ctx": ctx}
print("20**2 + 1**2 =", run_cutflow_transform(**cuts)["cutflow"]["cuts"][0]["sumw2"])
