"""Prints:

    staging: {'mode': 'shared'}

Expected: `staging: {'mode': 'transfer'}`.
"""

import os
import tempfile
from pathlib import Path

import yaml
from hepflow.api import compile_workflow_file

os.chdir(tempfile.mkdtemp())
Path("site.yaml").write_text(
    "execution: {backend: local, strategy: default, staging: {mode: transfer}}"
)
Path("workflow.yaml").write_text("""
use: {profiles: [hep, ./site.yaml]}
data:
  datasets: [{name: a, nevents: 1, files: [events.root]}]
analysis:
  stages:
    - {id: Cuts, op: hep.selection.cutflow, params: {selection: {All: ["x > 0"]}}}
""")
compile_workflow_file("workflow.yaml", outdir="build")
plan = yaml.safe_load(Path("build/compile/plan.yaml").read_text())
print("staging:", plan["execution"]["staging"])
