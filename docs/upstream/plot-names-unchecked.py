"""Prints:

    the plot is the one without ttbar: True
    the plot is the one with ttbar: False

Expected: an error for `ttbra`.
"""

import hashlib
import os
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("events.root") as out:
    out.mktree("events", {"x": np.arange(10.0), "good": np.arange(10) % 2})


def drawn(backgrounds):
    Path("workflow.yaml").write_text(f"""
use: {{profiles: [hep]}}
data:
  datasets:
    - {{name: data, eventtype: data, files: [events.root]}}
    - {{name: dy, eventtype: mc, files: [events.root]}}
    - {{name: ttbar, eventtype: mc, files: [events.root]}}
analysis:
  stages:
    - id: Hist
      op: hep.hist
      params:
        dataset_axis: true
        storage: weighted
        weight_expr: good
        axes: [{{name: x, source: x, type: regular, bins: {{low: 0, high: 10, nbins: 10}}}}]
      render: {{style: plot}}
styles:
  plot:
    op: hep.render.data_mc
    axes: {{x: {{name: x}}, y: {{name: events}}}}
    data_mc: {{data: data, signals: [], backgrounds: {backgrounds}}}
""")
    run_workflow_file("workflow.yaml", outdir="build")
    (plot,) = Path("build").rglob("*.png")
    return hashlib.sha256(plot.read_bytes()).hexdigest()


misspelt = drawn("[dy, ttbra]")
print("the plot is the one without ttbar:", misspelt == drawn("[dy]"))
print("the plot is the one with ttbar:", misspelt == drawn("[dy, ttbar]"))
