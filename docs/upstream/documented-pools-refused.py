"""Prints:

    ValueError: execution.pools['default'].resources must be a string

Expected: the workflow is compiled, or the documentation describes the other form.
"""

import os
import tempfile
from pathlib import Path

from hepflow.api import compile_workflow_file

os.chdir(tempfile.mkdtemp())
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, files: [events.root]}]
execution:
  pools: {default: {workers: 20, resources: {cpus: 1, memory: 4GB}}}
analysis:
  stages:
    - {id: Cuts, op: hep.selection.cutflow, params: {selection: {All: ["x > 0"]}}}
""")
try:
    compile_workflow_file("workflow.yaml", outdir="build")
except Exception as error:
    print(f"{type(error).__name__}: {error}")
