"""Prints:

    plan.yaml is the same in both folders: True
    graph_render.json is the same in both folders: False
    inputs.manifest.yaml is the same in both folders: False

Expected: `True` in all lines.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import uproot
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
for folder in ("one", "two"):
    compile_workflow_file("workflow.yaml", outdir=folder)
for name in ("plan.yaml", "graph_render.json", "inputs.manifest.yaml"):
    texts = {Path(folder, "compile", name).read_text() for folder in ("one", "two")}
    print(f"{name} is the same in both folders:", len(texts) == 1)
