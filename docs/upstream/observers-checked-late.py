"""Prints:

    compiled
    in the run: TypeError
    compiled
    in the run: ValueError

Expected: an error from the compiler for each.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import compile_workflow_file, run_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("events.root") as out:
    out.mktree("events", {"x": np.arange(10.0), "good": np.arange(10) % 2})
for observer in ("{kind: hep.branches, ot: found}", "{kind: hep.schema_snapshot, out: x}"):
    Path("workflow.yaml").write_text(f"""
use: {{profiles: [hep]}}
data:
  datasets: [{{name: a, files: [events.root]}}]
analysis:
  stages:
    - id: Cuts
      op: hep.selection.cutflow
      params: {{selection: {{All: ["x > 4.5"]}}}}
      inspect: {observer}
""")
    compile_workflow_file("workflow.yaml", outdir="build")
    print("compiled")
    try:
        run_workflow_file("workflow.yaml", outdir="build")
    except Exception as error:
        print(f"in the run: {type(error).__name__}")
