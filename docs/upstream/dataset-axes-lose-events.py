"""Prints:

    events: 20, in the histogram: 10

Expected: an error that says that `b` is not among the categories.
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
  datasets: [{name: a, files: [events.root]}, {name: b, files: [events.root]}]
analysis:
  stages:
    - id: Hist
      op: hep.hist
      params:
        dataset_axis: {name: dataset, source: dataset_name, type: category, bins: [a, bb]}
        axes: [{name: x, source: x, type: regular, bins: {low: 0, high: 10, nbins: 10}}]
""")
run_workflow_file("workflow.yaml", outdir="build")
found = pickle.loads(Path("build/artifacts/histograms/Hist.pkl").read_bytes())
print(f"events: 20, in the histogram: {found.sum():.0f}")
