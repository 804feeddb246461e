"""Prints:

    x: the run ends well
    weight: TypeError: Missing values for single/multiple axis : ['weight'].Expected axes : ['weight']
    sample: TypeError: Missing values for single/multiple axis : ['sample'].Expected axes : ['sample']
    threads: TypeError: Missing values for single/multiple axis : ['threads'].Expected axes : ['threads']

Expected: an error from the compiler that names the axis, or a histogram for each.
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
for name in ("x", "weight", "sample", "threads"):
    Path("workflow.yaml").write_text(f"""
use: {{profiles: [hep]}}
data:
  datasets: [{{name: a, files: [events.root]}}]
analysis:
  stages:
    - id: Hist
      op: hep.hist
      params:
        axes: [{{name: {name}, source: x, type: regular, bins: {{low: 0, high: 10, nbins: 10}}}}]
""")
    try:
        with contextlib.redirect_stdout(None):
            run_workflow_file("workflow.yaml", outdir="build")
        print(f"{name}: the run ends well")
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}")
