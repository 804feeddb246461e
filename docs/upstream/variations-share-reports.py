"""Prints:

    changed: ['build/reports/schema/read_events/events__a__0.json']

Expected: `changed: []`, and the reports of the variation in `build/reports/other`.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import run_plan_file, run_workflow_file

os.chdir(tempfile.mkdtemp())
for name in ("nominal", "other"):
    with uproot.recreate(f"{name}.root") as out:
        out.mktree("events", {"x": np.ones(100), f"only_in_{name}": np.ones(100)})
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, files: [nominal.root]}, {name: b, files: [other.root]}]
systematics:
  include_nominal: true
  variations:
    - {name: other, datasets: {replace: {a: b}}}
observers:
  - {kind: hep.schema_snapshot, at: read.events, out: schema}
analysis:
  stages:
    - id: Cuts
      op: hep.selection.cutflow
      params: {selection: {All: ["x > 0"]}}
""")
run_workflow_file("workflow.yaml", outdir="build")
before = {p: p.read_text() for p in Path("build/reports").rglob("*") if p.is_file()}
run_plan_file("build/compile/other/plan.yaml", outdir="build")
changed = [path for path, text in before.items() if path.read_text() != text]
print("changed:", sorted(path.as_posix() for path in changed))
