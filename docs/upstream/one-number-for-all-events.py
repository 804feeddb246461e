"""Prints:

    chunks of 10 events: sum of weights 1.0
    chunks of 5 events: sum of weights 2.0
    chunks of 2 events: sum of weights 5.0

Expected: an error that names the expression.
"""

import os
import pickle
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
  datasets: [{name: a, nevents: 10, files: [events.root]}]
registry: {functions: {total: "numpy:sum"}}
analysis:
  stages:
    - id: Define
      op: hep.define
      params: {variables: [{name: share, expr: "good / total(good)"}]}
    - id: Hist
      op: hep.hist
      params:
        storage: weighted
        weight_expr: share
        axes: [{name: x, source: x, type: regular, bins: {low: 0, high: 10, nbins: 10}}]
""")
for size in (10, 5, 2):
    run_workflow_file("workflow.yaml", outdir="build", chunk_size=size)
    found = pickle.loads(Path("build/artifacts/histograms/Hist.pkl").read_bytes())
    print(f"chunks of {size} events: sum of weights {found.sum().value:.1f}")
