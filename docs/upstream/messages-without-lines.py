"""Prints:

    analysis.stages[0].applies_to only supports eventtype in this release; unsupported keys: ['eventtypes']
    it names stages.yaml: False

Expected: `True`, and a message that also names the line.
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
Path("stages.yaml").write_text("""
analysis:
  stages:
    - id: Cuts
      op: hep.selection.cutflow
      params: {selection: {All: ["x > 4.5"]}}
      applies_to: {eventtypes: [mc]}
""")
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
include: [stages.yaml]
data:
  datasets: [{name: a, files: [events.root]}]
""")
try:
    compile_workflow_file("workflow.yaml", outdir="build")
    print("compiled")
except Exception as error:
    print(error)
    print("it names stages.yaml:", "stages.yaml" in str(error))
