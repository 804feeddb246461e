"""Prints:

    variations with a histogram: ['nominal']

Expected: `variations with a histogram: ['down', 'nominal', 'up']`.
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
  include_nominal: true
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
run_workflow_file("workflow.yaml", outdir="build")
made = sorted(path.parts[2] for path in Path("build/artifacts").glob("*/histograms/X.pkl"))
print("variations with a histogram:", made)
