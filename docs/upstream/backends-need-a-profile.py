"""Prints:

    refused: Unknown backend strategy 'snakemake.default'

Expected: the workflow runs if fasthep-smk is installed. Otherwise the message ends with `Install
fasthep-smk to provide optional profile 'fasthep_smk:registry'.`
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("events.root") as out:
    out.mktree("events", {"x": np.ones(100)})
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, files: [events.root]}]
analysis:
  stages:
    - id: X
      op: hep.hist
      params:
        axes: [{name: x, source: x, type: regular, bins: {low: 0, high: 2, nbins: 2}}]
""")
try:
    run_workflow_file("workflow.yaml", outdir="build", backend="snakemake")
except KeyError as error:
    print("refused:", error.args[0])
