"""Prints:

    pt > 20: the run ends well
    pt > min_pt: KeyError: "Required field 'Jet_min_pt' is missing from event stream"
    root(pt) > 4: KeyError: "Required field 'Jet_root' is missing from event stream"

Expected: all three expressions are evaluated, like the variable `Low`.
"""

import contextlib
import os
import tempfile
from pathlib import Path

import awkward as ak
import numpy as np
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("events.root") as out:
    pt = ak.Array([[1.0, 25.0], [30.0, 4.0, 5.0]])
    out.mktree("events", {"x": np.ones(2), "Jet_pt": pt})
for cut in ("pt > 20", "pt > min_pt", "root(pt) > 4"):
    Path("workflow.yaml").write_text(f"""
use: {{profiles: [hep]}}
data:
  datasets: [{{name: a, files: [events.root]}}]
registry: {{functions: {{root: "numpy:sqrt"}}}}
analysis:
  globals: {{min_pt: 20.0}}
  stages:
    - {{id: Min, op: hep.define, params: {{variables: [{{name: Low, expr: "root(x) * min_pt"}}]}}}}
    - id: Good
      op: hep.select_objects
      params: {{collection: Jet, output: Good, keep: [pt], selection: ["{cut}"]}}
""")
    try:
        with contextlib.redirect_stdout(None):
            run_workflow_file("workflow.yaml", outdir="build")
        print(f"{cut}: the run ends well")
    except Exception as error:
        print(f"{cut}: {type(error).__name__}: {str(error).splitlines()[0][:60]}")
