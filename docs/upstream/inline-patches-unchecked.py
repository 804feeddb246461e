"""Prints:

    {variables: [{name: y, expr: "x + 3"}]}, y: the first event is in bin 3
    {variabels: [{name: y, expr: "x + 3"}]}, y: the first event is in bin 0
    {variables: [{name: y, expr: "x + 3"}]}, yy: ValueError in the run

Expected: bin 3 in the first line, and an error from the compiler for the other lines.
"""

import contextlib
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
for patch, export in [
    ('{variables: [{name: y, expr: "x + 3"}]}', "y"),
    ('{variabels: [{name: y, expr: "x + 3"}]}', "y"),
    ('{variables: [{name: y, expr: "x + 3"}]}', "yy"),
]:
    Path("workflow.yaml").write_text(f"""
use: {{profiles: [hep]}}
data:
  datasets: [{{name: a, files: [events.root]}}]
systematics:
  include_nominal: true
  variations:
    - name: up
      mode: inline
      anchor: Define
      patch: {patch}
      stop_before: [Hist]
      export: {{y_up: {export}}}
analysis:
  stages:
    - {{id: Define, op: hep.define, params: {{variables: [{{name: y, expr: x}}]}}}}
    - id: Hist
      op: hep.hist
      params:
        axes: [{{name: y, source: y_up, type: regular, bins: {{low: 0, high: 20, nbins: 20}}}}]
""")
    try:
        with contextlib.redirect_stdout(None):
            run_workflow_file("workflow.yaml", outdir="build")
        (path,) = Path("build/artifacts").rglob("Hist.pkl")
        found = pickle.loads(path.read_bytes())
        said = f"the first event is in bin {int(np.flatnonzero(found.values())[0])}"
    except Exception as error:
        said = f"{type(error).__name__} in the run"
    print(f"{patch}, {export}: {said}")
