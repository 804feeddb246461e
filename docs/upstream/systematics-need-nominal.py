"""Prints:

    Systematics are present but no nominal variation was generated

Expected: all variations of the workflow run.
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
systematics:
  variations:
    - {name: up, weight: {multiply: "1.1"}}
    - {name: down, weight: {multiply: "0.9"}}
analysis:
  stages:
    - id: X
      op: hep.hist
      params:
        weight_expr: x
        axes: [{name: x, source: x, type: regular, bins: {low: 0, high: 2, nbins: 2}}]
""")
try:
    run_workflow_file("workflow.yaml", outdir="build")
    print("the run has ended well")
except Exception as error:
    print(str(error).partition(".")[0])
