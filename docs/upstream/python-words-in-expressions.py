"""Prints:

    (x > 4.5) & (good == 1): 3 events
    x > 4.5 and good == 1: ValueError in the run
    3 < x < 7: ValueError in the run
    x > 4 & good: 9 events

Expected: for each of the last three, an error from the compiler that names the expression.
"""

import json
import os
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("events.root") as out:
    out.mktree("events", {"x": np.arange(10.0), "good": np.arange(10) % 2})
for cut in ("(x > 4.5) & (good == 1)", "x > 4.5 and good == 1", "3 < x < 7", "x > 4 & good"):
    Path("workflow.yaml").write_text(f"""
use: {{profiles: [hep]}}
data:
  datasets: [{{name: a, files: [events.root]}}]
analysis:
  stages:
    - {{id: Cuts, op: hep.selection.cutflow, params: {{selection: {{All: ["{cut}"]}}}}}}
""")
    try:
        run_workflow_file("workflow.yaml", outdir="build")
        cutflow = json.loads(Path("build/artifacts/cutflows/Cuts.json").read_text())
        (row,) = cutflow["nodes"][0]["stats"].values()
        print(f"{cut}: {row['n_unweighted_out']} events")
    except Exception as error:
        print(f"{cut}: {type(error).__name__} in the run")
