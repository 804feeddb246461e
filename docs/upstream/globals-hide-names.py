"""Prints:

    {}: the run ends well
    {x: 3}: ValueError: Selection expression 'x > 1' produced a non-ev
    {sqrt: 2}: TypeError: 'int' object is not callable

Expected: an error when the workflow is compiled.
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
    out.mktree("events", {"x": np.arange(10.0)})
for values in ("{}", "{x: 3}", "{sqrt: 2}"):
    Path("workflow.yaml").write_text(f"""
use: {{profiles: [hep]}}
data:
  datasets: [{{name: a, files: [events.root]}}]
sources: {{events: {{kind: root_tree, tree: events, branches: [x]}}}}
analysis:
  globals: {values}
  stages:
    - {{id: Define, op: hep.define, params: {{variables: [{{name: y, expr: "sqrt(x)"}}]}}}}
    - {{id: Cuts, op: hep.selection.cutflow, params: {{selection: {{All: ["x > 1"]}}}}}}
""")
    try:
        with contextlib.redirect_stdout(None):
            run_workflow_file("workflow.yaml", outdir="build")
        print(f"{values}: the run ends well")
    except Exception as error:
        print(f"{values}: {type(error).__name__}: {str(error)[:46]}")
