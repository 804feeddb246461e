"""Prints:

    compiled
    the run: name 'x' is not defined

Expected: an error that says that there is no dataset.
"""

import os
import tempfile
from pathlib import Path

from hepflow.api import compile_workflow_file, run_workflow_file

os.chdir(tempfile.mkdtemp())
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data: {datasets: []}
analysis:
  stages:
    - {id: Cuts, op: hep.selection.cutflow, params: {selection: {All: ["x > 0"]}}}
""")
compile_workflow_file("workflow.yaml", outdir="build")
print("compiled")
try:
    run_workflow_file("workflow.yaml", outdir="build")
except Exception as error:
    print("the run:", str(error).partition(".")[0])
