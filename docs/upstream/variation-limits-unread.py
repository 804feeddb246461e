"""Prints:

    nominal: weight_expr: one
    up: weight_expr: (one) * (2.0)

Expected: data keep their weight, or an error that says that `applies_to` belongs to inline mode.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import compile_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("events.root") as out:
    out.mktree("events", {"x": np.arange(10.0), "one": np.ones(10)})
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets:
    - {name: data, eventtype: data, files: [events.root]}
systematics:
  include_nominal: true
  variations:
    - {name: up, weight: {multiply: "2.0"}, applies_to: {eventtypes: [mc]}}
analysis:
  stages:
    - id: H
      op: hep.hist
      params:
        weight_expr: one
        axes: [{name: x, source: x, type: regular, bins: {low: 0, high: 10, nbins: 10}}]
""")
compile_workflow_file("workflow.yaml", outdir="build")
for name in ("nominal", "up"):
    text = Path("build/compile", name, "plan.yaml").read_text()
    weight = next(line.strip() for line in text.splitlines() if "weight_expr: " in line)
    print(f"{name}: {weight}")
