"""Prints:

    told of: ['build_paths', 'execution', 'outdir']
    Run complete
    status: 0

Expected: a status that is not 0. The backend also gets the paths of workflow and plan, the other
variations, and the options of the command line.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import uproot
from fasthep_cli.app import app
from typer.testing import CliRunner

os.chdir(tempfile.mkdtemp())
sys.path.insert(0, os.getcwd())
with uproot.recreate("events.root") as out:
    out.mktree("events", {"x": np.ones(100)})
Path("lost.py").write_text("""
from hepflow.backends.model import BackendResult
class Lost:
    def run(self, plan, *, ctx=None, progress=None):
        print("told of:", sorted(ctx))
        return BackendResult("lost", "default", success=False)
""")
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
registry: {backends: {lost: {impl: "lost:Lost"}}}
data:
  datasets: [{name: a, files: [events.root]}]
analysis:
  stages:
    - id: X
      op: hep.hist
      params:
        axes: [{name: x, source: x, type: regular, bins: {low: 0, high: 2, nbins: 2}}]
""")
command = ["run", "workflow.yaml", "--outdir", "build", "--backend", "lost"]
done = CliRunner().invoke(app, command)
print(done.stdout)
print("status:", done.exit_code)
