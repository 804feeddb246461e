"""Prints:

    datasets: ['201808', 'True']

Expected: the names as they are in the file, or an error that asks for quotes.
"""

import contextlib
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
  datasets:
    - {name: on, files: [events.root]}
    - {name: 2018_08, files: [events.root], part: 2}
analysis:
  stages:
    - id: Cuts
      op: hep.selection.cutflow
      params: {selection: {All: ["x > 0"]}}
      write: {kind: root_tree, path: skim.root, keep: [x]}
""")
with contextlib.redirect_stdout(None):
    run_workflow_file("workflow.yaml", outdir="build")
print("datasets:", sorted(path.parent.name for path in Path("build").rglob("0_0.root")))
