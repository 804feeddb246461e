"""Prints:

    the run has ended well

Expected: an error or a warning that names the file.
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
    for _ in range(3):
        out["events"].extend({"x": np.random.rand(100000)})
whole = Path("events.root").read_bytes()
Path("events.root").write_bytes(whole[:-1000])
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, nevents: 100, files: [events.root]}]
analysis:
  stages:
    - {id: Cuts, op: hep.selection.cutflow, params: {selection: {All: ["x > 0"]}}}
""")
try:
    run_workflow_file("workflow.yaml", outdir="build")
    print("the run has ended well")
except Exception as error:
    print(f"{type(error).__name__}: {error}")
