"""Prints:

    KeyError: 'Missing planned input value: stage.Cuts.stream'

Expected: `the run has ended well`, with one number per partition.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
sys.path.insert(0, os.getcwd())
with uproot.recreate("events.root") as out:
    out.mktree("events", {"x": np.ones(100)})
Path("own.py").write_text("""
SPEC = {
    "name": "own.count",
    "kind": "transform",
    "version": "1.0",
    "input": {"name": "stream", "kind": "event_stream", "required": True},
    "result": {"number": {"kind": "number"}},
    "params": {},
}

def count(*, stream, ctx, **_):
    return {"number": len(stream)}
""")
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
registry:
  transforms: {own.count: {spec: "own:SPEC", impl: "own:count"}}
data:
  datasets: [{name: a, files: [events.root]}]
analysis:
  stages:
    - {id: Cuts, op: hep.selection.cutflow, params: {selection: {All: ["x > 0"]}}}
    - {id: Count, op: own.count, from: Cuts}
""")
try:
    run_workflow_file("workflow.yaml", outdir="build")
    print("the run has ended well")
except Exception as error:
    print(f"{type(error).__name__}: {error}")
