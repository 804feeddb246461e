"""Prints:

    sum of weights: 5.0

Expected: an error for `weigth_expr` (with `weight_expr` it is 6.0).
"""

import json
import os
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("events.root") as out:
    out.mktree("events", {"x": np.arange(10.0), "good": np.arange(10) % 2})
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, files: [events.root]}]
analysis:
  stages:
    - id: Cuts
      op: hep.selection.cutflow
      params: {selection: {All: ["x > 4.5"]}, weigth_expr: "2 * good"}
""")
run_workflow_file("workflow.yaml", outdir="build")
cutflow = json.loads(Path("build/artifacts/cutflows/Cuts.json").read_text())
(row,) = cutflow["nodes"][0]["stats"].values()
print("sum of weights:", row["sumw_out"])
