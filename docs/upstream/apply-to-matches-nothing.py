"""Prints:

    mc: {'nominal': 15.0, 'up': 20.0}
    MC: {'nominal': 10.0, 'up': 0.0}

Expected: an error for `MC`, because no dataset has this eventtype.
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
for eventtype in ("mc", "MC"):
    Path("workflow.yaml").write_text(f"""
use: {{profiles: [hep]}}
data:
  datasets: [{{name: a, files: [events.root], eventtype: mc}}]
analysis:
  stages:
    - id: Hist
      op: hep.hist
      params:
        axes: [{{name: x, source: x, type: regular, bins: {{low: 0, high: 10, nbins: 10}}}}]
        variations:
          weights: {{nominal: "3 * good", up: "4 * good"}}
          apply_to: {{eventtype: {eventtype}}}
""")
    run_workflow_file("workflow.yaml", outdir="build")
    found = pickle.loads(Path("build/artifacts/histograms/Hist.pkl").read_bytes())
    varied = {name: found[{"variation": name}].sum().value for name in found.axes["variation"]}
    print(f"{eventtype}: {varied}")
