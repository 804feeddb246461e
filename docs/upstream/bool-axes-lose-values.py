"""Prints:

    no and yes: [1.0, 1.0] overflow: 2.0

Expected: an error that names the axis and the value 2, or three events that count as yes.
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
    out.mktree("events", {"nMuon": np.array([0, 1, 2, 3])})
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, files: [events.root]}]
analysis:
  stages:
    - {id: Hist, op: hep.hist, params: {axes: [{name: any, source: nMuon, type: bool}]}}
""")
run_workflow_file("workflow.yaml", outdir="build")
found = pickle.loads(Path("build/artifacts/histograms/Hist.pkl").read_bytes())
print("no and yes:", found.values().tolist(), "overflow:", found.values(flow=True)[-1])
