"""Prints:

    y: the run ends well
    x: NameError: name 'x' is not defined. While evaluating expression 'good *

Expected: in both cases, the branch is read and the run ends well.
"""

import contextlib
import os
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("events.root") as out:
    out.mktree("events", {"x": np.arange(10.0), "good": np.arange(10) % 2})
for name in ("y", "x"):
    Path("workflow.yaml").write_text(f"""
use: {{profiles: [hep]}}
data:
  datasets: [{{name: a, files: [events.root]}}]
analysis:
  stages:
    - {{id: Define, op: hep.define, params: {{variables: [{{name: {name}, expr: "good * x"}}]}}}}
    - id: Hist
      op: hep.hist
      params:
        axes: [{{name: x, source: {name}, type: regular, bins: {{low: 0, high: 20, nbins: 20}}}}]
""")
    try:
        with contextlib.redirect_stdout(None):
            run_workflow_file("workflow.yaml", outdir="build")
        print(f"{name}: the run ends well")
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:60]}")
