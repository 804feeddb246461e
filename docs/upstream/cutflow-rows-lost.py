"""Prints:

    events passing: {'c': 20, 'default': 0}

Expected: `events passing: {'a': 20, 'b': 20, 'c': 20}`.
"""

import json
import os
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("ten.root") as out:
    out.mktree("events", {"x": np.ones(10)})
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets:
    - {name: a, files: [ten.root, ten.root]}
    - {name: b, files: [ten.root, ten.root]}
    - {name: c, files: [ten.root, ten.root]}
analysis:
  stages:
    - {id: Cuts, op: hep.selection.cutflow, params: {selection: {All: ["x > 0"]}}}
""")
run_workflow_file("workflow.yaml", outdir="build")
cutflow = json.loads(Path("build/artifacts/cutflows/Cuts.json").read_text())
stats = cutflow["nodes"][0]["stats"]
print("events passing:", {name: row["n_unweighted_out"] for name, row in stats.items()})
