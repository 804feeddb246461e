"""Prints:

    written: results/artifacts/cutflows/Cuts.json

Expected: `written: results/reports/artifacts/cutflows/Cuts.json`, or an error.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("events.root") as out:
    out.mktree("events", {"x": np.ones(100)})
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, files: [events.root]}]
analysis:
  stages:
    - {id: Cuts, op: hep.selection.cutflow, params: {selection: {All: ["x > 0"]}}}
""")
run_workflow_file("workflow.yaml", outdir="results/reports")
(found,) = Path().rglob("Cuts.json")
print("written:", found.as_posix())
