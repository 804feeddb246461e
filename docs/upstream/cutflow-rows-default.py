"""Prints:

    events passing: {'default': 30}

Expected: `events passing: {'a': 10, 'b': 20}`.
"""

import json
import os
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
for name, number in {"a": 10, "b": 20}.items():
    with uproot.recreate(f"{name}.root") as out:
        out.mktree("events", {"x": np.ones(number)})
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, files: [a.root]}, {name: b, files: [b.root]}]
analysis:
  stages:
    - {id: Cuts, op: hep.selection.cutflow, params: {selection: {All: ["x > 0"]}}}
""")
run_workflow_file("workflow.yaml", outdir="build")
cutflow = json.loads(Path("build/artifacts/cutflows/Cuts.json").read_text())
stats = cutflow["nodes"][0]["stats"]
print("events passing:", {name: row["n_unweighted_out"] for name, row in stats.items()})
