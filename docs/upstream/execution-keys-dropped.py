"""Prints:

    pool: {'resources': 'default', 'workers': 2, 'config': {}}
    retires: dropped

Expected: errors for `walltime`, `retires` and `2.7`.
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
    out.mktree("events", {"x": np.ones(100)})
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, files: [events.root]}]
execution:
  resources: {default: {cpus: 1}}
  pools: {default: {resources: default, workers: 2.7, walltime: "02:00:00"}}
  retires: 3
analysis:
  stages:
    - {id: Cuts, op: hep.selection.cutflow, params: {selection: {All: ["x > 0"]}}}
""")
compile_workflow_file("workflow.yaml", outdir="build")
execution = yaml.safe_load(Path("build/compile/plan.yaml").read_text())["execution"]
print("pool:", execution["pools"]["default"])
print("retires:", execution.get("retires", "dropped"))
