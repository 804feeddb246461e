"""Prints:

    partitions that were run: 1; then FileNotFoundError

Expected: an error before anything runs.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("one.root") as out:
    out.mktree("events", {"x": np.ones(100)})
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
try:
    run_workflow_file("workflow.yaml", outdir="build")
except Exception as error:
    skims = len(list(Path("build").rglob("*.root")))
    print(f"partitions that were run: {skims}; then {type(error).__name__}")
