"""Prints:

    events: 2 sum of weights: 15.0

Expected: an error that names the weight.
"""

import json
import os
import tempfile
from pathlib import Path

import awkward as ak
import numpy as np
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("events.root") as out:
    pt = ak.Array([[1.0, 2.0], [3.0, 4.0, 5.0]])
    out.mktree("events", {"x": np.ones(2), "Jet_pt": pt})
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, files: [events.root]}]
analysis:
  stages:
    - id: Cuts
      op: hep.selection.cutflow
      params: {selection: {All: ["x > 0"]}, weight_expr: Jet_pt}
""")
run_workflow_file("workflow.yaml", outdir="build")
cutflow = json.loads(Path("build/artifacts/cutflows/Cuts.json").read_text())
stats = cutflow["nodes"][0]["stats"]["default"]
print("events:", stats["n_unweighted_out"], "sum of weights:", stats["sumw_out"])
