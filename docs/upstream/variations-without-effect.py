"""Prints:

    x_up has the nodes of nominal: True
    weight_up has the nodes of nominal: True

Expected: an error for each variation.
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
systematics:
  include_nominal: true
  variations:
    - {name: x_up, replace: {xx: x_shifted}}
    - {name: weight_up, weight: {multiply: "1.1"}}
analysis:
  stages:
    - {id: Cuts, op: hep.selection.cutflow, params: {selection: {All: ["x > 4.5"]}}}
""")
compile_workflow_file("workflow.yaml", outdir="build")


def nodes(variation):
    text = Path("build/compile", variation, "plan.yaml").read_text()
    return text.partition("\nnodes:")[2].partition("\npartitions:")[0].replace(variation, "")


for name in ("x_up", "weight_up"):
    print(f"{name} has the nodes of nominal:", nodes(name) == nodes("nominal"))
