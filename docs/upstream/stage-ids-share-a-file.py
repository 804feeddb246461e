"""Prints:

    histograms: ['a_b.pkl']

Expected: two files, or an error when the workflow is compiled.
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
    - id: a b
      op: hep.hist
      params:
        axes: [{name: x, source: x, type: regular, bins: {low: 0, high: 2, nbins: 2}}]
    - id: a_b
      op: hep.hist
      params:
        axes: [{name: x, source: x, type: regular, bins: {low: 0, high: 2, nbins: 4}}]
""")
run_workflow_file("workflow.yaml", outdir="build")
print("histograms:", [path.name for path in Path("build/artifacts/histograms").glob("*.pkl")])
