"""Prints:

    files read: ['two.root']

Expected: an error that names the dataset, or the files of both.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
for name, number in {"one": 10, "two": 20}.items():
    with uproot.recreate(f"{name}.root") as out:
        out.mktree("events", {"x": np.ones(number)})
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, files: [one.root]}, {name: a, files: [two.root]}]
analysis:
  stages:
    - {id: Cuts, op: hep.selection.cutflow, params: {selection: {All: ["x > 0"]}}}
""")
result = run_workflow_file("workflow.yaml", outdir="build")
print("files read:", [one["partition"]["file"] for one in result.summary["partitions"]])
