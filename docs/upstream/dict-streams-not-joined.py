"""Prints:

    TypeError: root_tree writer expects an awkward.Array or dict[str, array-like], found <class 'list'>

Expected: `events written: 200`.
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
Path("table.csv").write_text("low_min,low_max,weight\n0,2,1.5\n")
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, files: [events.root, events.root]}]
analysis:
  stages:
    - id: Weights
      op: hep.weights.lookup_csv
      params:
        {path: table.csv, variable: x, bins: {column: low}, values: {nominal: weight}, outputs: {nominal: w}}
      write: {kind: root_tree, path: "{dataset}.root", keep: [x, w], when: dataset}
""")
try:
    run_workflow_file("workflow.yaml", outdir="build")
    print("events written:", uproot.open("build/artifacts/files/a.root")["events"].num_entries)
except Exception as error:
    print(f"{type(error).__name__}: {error}")
