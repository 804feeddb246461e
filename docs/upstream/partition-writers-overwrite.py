"""Prints:

    events of 30 that are written: {'a.root': 20}

Expected: all 30 events, or an error when the workflow is compiled.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
for name, number in {"one": 10, "two": 20}.items():
    with uproot.recreate(f"{name}.root") as out:
        out.mktree("events", {"x": np.ones(number)})
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, files: [one.root, two.root]}]
analysis:
  stages:
    - id: Cuts
      op: hep.selection.cutflow
      params: {selection: {All: ["x > 0"]}}
      write: {kind: root_tree, path: "{dataset}.root", keep: [x]}
""")
run_workflow_file("workflow.yaml", outdir="build")
skims = {p.name: uproot.open(p)["events"].num_entries for p in Path("build").rglob("*.root")}
print("events of 30 that are written:", skims)
