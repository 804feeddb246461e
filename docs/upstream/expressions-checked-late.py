"""Prints:

    objects of two collections: compiled, then ValueError
    a reduction of what is no list: compiled, then ValueError
    a cut that is no condition: compiled, then ValueError
    a column that is not there: compiled, then KeyInFileError

Expected: an error before any job is started, which names the stage and the expression.
"""

import contextlib
import os
import tempfile
from pathlib import Path

import awkward as ak
import numpy as np
import uproot
from hepflow.api import compile_workflow_file, run_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("events.root") as out:
    jets, muons = ak.Array([[1.0, 2.0], [3.0]]), ak.Array([[1.0], [2.0, 3.0]])
    out.mktree("events", {"x": np.ones(2), "Jet_pt": jets, "Muon_pt": muons})
DEFINE = "op: hep.define, params: {variables: [{name: y, %s}]}"
CUTS = 'op: hep.selection.cutflow, params: {selection: {All: ["%s"]}}'
for what, stage in {
    "objects of two collections": DEFINE % 'expr: "Jet_pt + Muon_pt"',
    "a reduction of what is no list": DEFINE % "reduce: {op: any, over: x}",
    "a cut that is no condition": CUTS % "Jet_pt > 1",
    "a column that is not there": CUTS % "x > 0"
    + ", write: {kind: root_tree, path: skim.root, keep: [xx]}",
}.items():
    Path("workflow.yaml").write_text(f"""
use: {{profiles: [hep]}}
data:
  datasets: [{{name: a, files: [events.root]}}]
analysis:
  stages:
    - {{id: Stage, {stage}}}
""")
    try:
        said = "refused by the compiler"
        compile_workflow_file("workflow.yaml", outdir="build")
        said = "compiled"
        with contextlib.redirect_stdout(None):
            run_workflow_file("workflow.yaml", outdir="build")
        print(f"{what}: {said}, the run ends well")
    except Exception as error:
        print(f"{what}: {said}, then {type(error).__name__}")
