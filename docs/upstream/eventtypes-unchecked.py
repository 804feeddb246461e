"""Prints:

    data: 10 events in the histogram of data
    dta: 0 events in the histogram of data

Expected: an error for `dta`, or a warning that stages use only `data` and `mc`.
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
for eventtype in ("data", "dta"):
    Path("workflow.yaml").write_text(f"""
use: {{profiles: [hep]}}
data:
  datasets: [{{name: a, files: [events.root], eventtype: {eventtype}}}, {{name: b, files: [events.root]}}]
analysis:
  stages:
    - id: OfData
      op: hep.hist
      applies_to: {{eventtype: data}}
      params:
        axes: [{{name: x, source: x, type: regular, bins: {{low: 0, high: 10, nbins: 10}}}}]
""")
    run_workflow_file("workflow.yaml", outdir=f"build-{eventtype}")
    found = Path(f"build-{eventtype}/artifacts/histograms/OfData.pkl")
    events = pickle.loads(found.read_bytes()).sum() if found.is_file() else 0
    print(f"{eventtype}: {events:.0f} events in the histogram of data")
