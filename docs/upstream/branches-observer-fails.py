"""Prints:

    run_branches_observer() got an unexpected keyword argument 'node_id'

Expected: the run ends well, and writes the report of the branches.
"""

import os
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
  datasets: [{name: a, files: [events.root]}]
observers: [{kind: hep.branches, at: stage.Cuts, out: found}]
analysis:
  stages:
    - {id: Cuts, op: hep.selection.cutflow, params: {selection: {All: ["x > 4.5"]}}}
""")
try:
    run_workflow_file("workflow.yaml", outdir="build")
    print("the run ends well")
except TypeError as error:
    print(error)
