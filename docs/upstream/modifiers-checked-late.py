"""Prints:

    compiled
    in the run: gpu.preload requires explicit True
    compiled
    in the run: cuda.jit requires explicit True

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
    out.mktree("events", {"x": np.arange(10.0)})
for modifier in ("gpu.preload", "cuda.jit"):
    Path("workflow.yaml").write_text(f"""
use: {{profiles: [hep]}}
data:
  datasets: [{{name: a, files: [events.root]}}]
analysis:
  stages:
    - id: Twice
      op: hep.define
      params: {{variables: [{{name: y, expr: 2 * x}}]}}
      execution: {{modifiers: [{modifier}]}}
""")
    compile_workflow_file("workflow.yaml", outdir="build")
    print("compiled")
    try:
        run_workflow_file("workflow.yaml", outdir="build")
    except Exception as error:
        print(f"in the run: {modifier} requires explicit", "requires explicit" in str(error))
