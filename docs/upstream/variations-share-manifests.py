"""Prints:

    skims of: ['nominal', 'up']
    in the writer's manifest: ['up']
    in the provenance: ['up']

Expected: `nominal` and `up` in all three lines, or manifests for each variation.
"""

import json
import os
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import run_plan_file, run_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("events.root") as out:
    out.mktree("events", {"x": np.ones(100)})
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, files: [events.root]}]
systematics:
  include_nominal: true
  variations:
    - {name: up, weight: {multiply: "1.1"}}
analysis:
  stages:
    - id: Cuts
      op: hep.selection.cutflow
      params: {selection: {All: ["x > 0"]}, weight_expr: x}
      write: {kind: root_tree, path: skim.root, keep: [x]}
""")
run_workflow_file("workflow.yaml", outdir="build")
run_plan_file("build/compile/up/plan.yaml", outdir="build")
skims = sorted(path.parts[2] for path in Path("build/artifacts").rglob("*.root"))
(manifest,) = Path("build/artifacts").rglob("skim/manifest.json")
(dataset,) = json.loads(manifest.read_text())["datasets"].values()
index = json.loads(Path("build/artifacts/provenance/manifest.json").read_text())
print("skims of:", skims)
print("in the writer's manifest:", sorted(file["path"].split("/")[1] for file in dataset["files"]))
print("in the provenance:", sorted({r["artifact"].split("/")[1] for r in index["records"]}))
