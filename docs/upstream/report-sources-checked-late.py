"""Prints:

    all events were read: True; then Unknown report source: 'provenence'

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
analysis:
  stages:
    - {id: Cuts, op: hep.selection.cutflow, params: {selection: {All: ["x > 0"]}}}
reports:
  - {id: R, op: hep.report, source: provenence, outputs: [{path: r.md, format: markdown}]}
""")
try:
    run_workflow_file("workflow.yaml", outdir="build")
except Exception as error:
    done = Path("build/artifacts/cutflows/Cuts.json").is_file()
    print(f"all events were read: {done}; then {error}")
