"""Prints:

    ValueError: Artifact reference dataset None does not match dataset boundary 'a'

Expected: `the run has ended well`.
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
  datasets: [{name: a, files: [events.root, events.root]}]
styles:
  x: {op: hep.render.hist1d, axes: {x: {name: x}}}
analysis:
  stages:
    - id: X
      op: hep.hist
      params:
        axes: [{name: x, source: x, type: regular, bins: {low: 0, high: 2, nbins: 2}}]
      render: {style: x, when: partition}
""")
try:
    run_workflow_file("workflow.yaml", outdir="build")
    print("the run has ended well")
except Exception as error:
    print(f"{type(error).__name__}: {error}")
