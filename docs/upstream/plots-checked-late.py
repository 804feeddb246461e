"""Prints:

    compiled
    the events are processed: True
    FigureSpec.__init__() got an unexpected keyword argument 'dpii'

Expected: an error from the compiler.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import compile_workflow_file, run_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("events.root") as out:
    out.mktree("events", {"x": np.arange(10.0), "good": np.arange(10) % 2})
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, files: [events.root]}]
analysis:
  stages:
    - id: Hist
      op: hep.hist
      params:
        axes: [{name: x, source: x, type: regular, bins: {low: 0, high: 10, nbins: 10}}]
      render: {style: plot}
styles:
  plot: {op: hep.render.hist1d, figure: {dpii: 50}, axes: {x: {name: x}, y: {name: events}}}
""")
compile_workflow_file("workflow.yaml", outdir="build")
print("compiled")
try:
    run_workflow_file("workflow.yaml", outdir="build")
except Exception as error:
    print(f"the events are processed: {Path('build/artifacts/histograms/Hist.pkl').is_file()}")
    print(error)
