"""Prints:

    calls of the operation: 2

Expected: `calls of the operation: 1`.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import compile_workflow_file, load_plan_file
from hepflow.runtime.engine import build_partition_context, execute_plan_partition

os.chdir(tempfile.mkdtemp())
sys.path.insert(0, os.getcwd())
with uproot.recreate("events.root") as out:
    out.mktree("events", {"x": np.ones(100)})
Path("own.py").write_text("""
SPEC = {
    "name": "own.slow",
    "kind": "transform",
    "version": "1.0",
    "input": {"name": "stream", "kind": "event_stream", "required": True},
    "result": {"stream": {"kind": "event_stream"}},
    "params": {},
}
calls = 0

def slow(*, stream, ctx):
    global calls
    calls += 1
    return stream
""")
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
registry:
  transforms: {own.slow: {spec: "own:SPEC", impl: "own:slow"}}
data:
  datasets: [{name: a, files: [events.root]}]
analysis:
  stages:
    - {id: Slow, op: own.slow}
    - {id: Cuts, op: hep.selection.cutflow, params: {selection: {All: ["x > 0"]}}}
""")
compile_workflow_file("workflow.yaml", outdir="build")
plan = load_plan_file("build/compile/plan.yaml")
(partition,) = plan.partitions
context = build_partition_context(plan, base_ctx={"outdir": "build"}, partition=partition)
values = execute_plan_partition(plan, ctx=context)
execute_plan_partition(plan, ctx=context, initial_values=values)  # of all nodes

import own

print("calls of the operation:", own.calls)
