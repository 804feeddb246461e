"""Prints:

    the plan has 'parms': False
    the plan has 'weight_expr': False
    the plan has 'renders': False
    the plan has 'analyis': False
    the plan has 'cut': True

Expected: an error for `eventtyp`, `parms`, `renders` and `analyis`.
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
  datasets: [{name: a, files: [events.root], eventtyp: data}]
analysis:
  stages:
    - id: Hist
      op: hep.hist
      parms: {weight_expr: good}
      params: {axes: [{name: x, source: x, type: regular, bins: {low: 0, high: 9, nbins: 9}}]}
      renders: {style: plot}
analyis: {globals: {cut: 5}}
""")
compile_workflow_file("workflow.yaml", outdir="build")
plan = Path("build/compile/plan.yaml").read_text()
for word in ("parms", "weight_expr", "renders", "analyis", "cut"):
    print(f"the plan has {word!r}:", word in plan)
