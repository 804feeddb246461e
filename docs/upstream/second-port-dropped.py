"""Prints:

    inputs of the stage: ['stream']

Expected: `inputs of the stage: ['stream', 'extra']`.
"""

import os
import sys
import tempfile
from pathlib import Path

import yaml
from hepflow.api import compile_workflow_file

os.chdir(tempfile.mkdtemp())
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
registry:
  transforms:
    own.both: {spec: "own:BOTH", impl: "own:both"}
    own.use: {spec: "own:USE", impl: "own:use"}
data:
  datasets: [{name: a, nevents: 1, files: [events.root]}]
analysis:
  stages:
    - {id: Both, op: own.both, from: events}
    - id: Use
      op: own.use
      from: [{node: Both, port: stream, as: stream}, {node: Both, port: extra, as: extra}]
""")
Path("own.py").write_text("""
STREAM = {"name": "stream", "kind": "event_stream", "required": True}
RESULT = {"stream": {"kind": "event_stream"}, "extra": {"kind": "own_extra"}}
BOTH = {"name": "own.both", "kind": "transform", "input": STREAM, "result": RESULT}
USE = {"name": "own.use", "kind": "transform", "input": STREAM, "result": RESULT}

def both(*, stream, ctx):
    return {"stream": stream, "extra": 1}

def use(*, stream, extra=None, ctx):
    return {"stream": stream, "extra": extra}
""")
sys.path.insert(0, os.getcwd())
compile_workflow_file("workflow.yaml", outdir="build")
plan = yaml.safe_load(Path("build/compile/plan.yaml").read_text())
(use,) = [node for node in plan["nodes"] if node["id"] == "stage.Use"]
print("inputs of the stage:", [one["input_name"] for one in use["inputs"]])
