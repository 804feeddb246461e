"""Prints:

    TypeError: root_tree writer expects an awkward.Array or dict[str, array-like], found <class 'list'>

Expected: `events written: 200`, those of both datasets in order.
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
  datasets: [{name: a, files: [events.root]}, {name: b, files: [events.root]}]
analysis:
  stages:
    - id: Cuts
      op: hep.selection.cutflow
      params: {selection: {All: ["x > 0"]}}
      write: {kind: root_tree, path: all.root, keep: [x], when: final}
""")
try:
    run_workflow_file("workflow.yaml", outdir="build")
    print("events written:", uproot.open("build/artifacts/files/all.root")["events"].num_entries)
except Exception as error:
    print(f"{type(error).__name__}: {error}")
