"""Prints:

    events in the file: 10, counted: 30

Expected: an error, at least for the file that is listed twice in one dataset.
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
  datasets: [{name: a, files: [events.root, ./events.root]}, {name: b, files: [events.root]}]
analysis:
  stages:
    - {id: Cuts, op: hep.selection.cutflow, params: {selection: {All: ["x >= 0"]}}}
""")
run_workflow_file("workflow.yaml", outdir="build")
cutflow = json.loads(Path("build/artifacts/cutflows/Cuts.json").read_text())
rows = cutflow["nodes"][0]["stats"].values()
print("events in the file: 10, counted:", sum(row["n_unweighted_out"] for row in rows))
