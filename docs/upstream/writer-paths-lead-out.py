"""Prints:

    written: ['skim.root']

Expected: an error when the workflow is compiled.
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
    - id: Cuts
      op: hep.selection.cutflow
      params: {selection: {All: ["x > 0"]}}
      write: {kind: root_tree, path: ../../../skim.root, keep: [x], when: dataset}
""")
run_workflow_file("workflow.yaml", outdir="build")
print("written:", [path.as_posix() for path in Path().rglob("skim.root")])
