"""Prints:

    a key of the node says what its expressions are: False

Expected: `True`, with `[x > 4.5]` under that key.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import uproot
import yaml
from hepflow.api import compile_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("events.root") as out:
    out.mktree("events", {"x": np.arange(10.0), "good": np.arange(10) % 2})
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, files: [events.root]}]
analysis:
  stages:
    - {id: Cuts, op: hep.selection.cutflow, params: {selection: {All: ["x > 4.5"]}}}
""")
compile_workflow_file("workflow.yaml", outdir="build")
plan = yaml.safe_load(Path("build/compile/plan.yaml").read_text())
(cuts,) = (node for node in plan["nodes"] if node["id"] == "stage.Cuts")
print("a key of the node says what its expressions are:", "expressions" in cuts)
