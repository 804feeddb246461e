"""Prints:

    all events were read: True; then KeyError

Expected: an error when the workflow is compiled.
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
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, files: [events.root]}]
styles:
  x: {op: hep.render.histogram, axes: {x: {name: x}}}
analysis:
  stages:
    - id: X
      op: hep.hist
      params:
        axes: [{name: x, source: x, type: regular, bins: {low: 0, high: 2, nbins: 2}}]
      render: {style: x}
""")
try:
    run_workflow_file("workflow.yaml", outdir="build")
except Exception as error:
    done = Path("build/artifacts/histograms/X.pkl").is_file()
    print(f"all events were read: {done}; then {type(error).__name__}")
