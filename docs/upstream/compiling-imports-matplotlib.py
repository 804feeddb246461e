"""Prints:

    matplotlib is imported before: False
    matplotlib is imported after compiling: True

Expected: `False` in the second line.
"""

import os
import sys
import tempfile
from pathlib import Path

from hepflow.api import compile_workflow_file

os.chdir(tempfile.mkdtemp())
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, nevents: 1, files: [events.root]}]
styles:
  x: {op: hep.render.hist1d, axes: {x: {name: x}}}
analysis:
  stages:
    - id: X
      op: hep.hist
      params:
        axes: [{name: x, source: x, type: regular, bins: {low: 0, high: 2, nbins: 2}}]
      render: {style: x}
""")
print("matplotlib is imported before:", "matplotlib" in sys.modules)
compile_workflow_file("workflow.yaml", outdir="build")
print("matplotlib is imported after compiling:", "matplotlib" in sys.modules)
