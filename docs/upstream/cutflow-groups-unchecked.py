"""Prints:

    All: ['x > 4.5'] passes 5 of 10 events
    All: 'x > 4.5' passes 10 of 10 events
    All: {step: ['x > 4.5']} passes 10 of 10 events

Expected: 5 events in the first line, and an error for the other lines.
"""

import os
import pickle
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("events.root") as out:
    out.mktree("events", {"x": np.arange(10.0), "good": np.arange(10) % 2})
for group in ("['x > 4.5']", "'x > 4.5'", "{step: ['x > 4.5']}"):
    Path("workflow.yaml").write_text(f"""
use: {{profiles: [hep]}}
data:
  datasets: [{{name: a, files: [events.root]}}]
analysis:
  stages:
    - {{id: Cuts, op: hep.selection.cutflow, params: {{selection: {{All: {group}}}}}}}
    - id: Hist
      op: hep.hist
      params:
        axes: [{{name: x, source: x, type: regular, bins: {{low: 0, high: 10, nbins: 10}}}}]
""")
    run_workflow_file("workflow.yaml", outdir="build")
    found = pickle.loads(Path("build/artifacts/histograms/Hist.pkl").read_bytes())
    print(f"All: {group} passes {found.sum():.0f} of 10 events")
