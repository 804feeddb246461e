"""Prints:

    8 partitions of 25 of 100 events, 4 skims are empty

Expected: `4 partitions of 25 of 100 events, 0 skims are empty`.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
for name in ("one", "two"):
    with uproot.recreate(f"{name}.root") as out:
        out.mktree("events", {"x": np.ones(50)})
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, nevents: 100, files: [one.root, two.root]}]
analysis:
  stages:
    - id: Cuts
      op: hep.selection.cutflow
      params: {selection: {All: ["x > 0"]}}
      write: {kind: root_tree, path: skim.root, keep: [x]}
""")
run_workflow_file("workflow.yaml", outdir="build", chunk_size=25)
skims = sorted(Path("build/artifacts/files").rglob("*.root"))
empty = [path for path in skims if uproot.open(path)["events"].num_entries == 0]
print(f"{len(skims)} partitions of 25 of 100 events, {len(empty)} skims are empty")
