"""Prints:

    events in the histogram: 200

Expected: `events in the histogram: 100`: the file has 100 entries.
"""

import os
import pickle
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("events.root") as out:  # 100 events in two trees
    out.mktree("left", {"x": np.linspace(0, 1, 100)})
    out.mktree("right", {"y": np.linspace(0, 1, 100)})
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, files: [events.root]}]
sources:
  left: {kind: root_tree, tree: left, stream_type: event_stream}
  right: {kind: root_tree, tree: right, stream_type: event_stream}
joins:
  both:
    kind: zip
    inputs: [{source: left, prefix: left}, {source: right, prefix: right}]
primary_stream: both
fields:
  x: {stream: both, branch: left.x}
analysis:
  stages:
    - id: X
      op: hep.hist
      params:
        axes: [{name: x, source: x, type: regular, bins: {low: -1, high: 2, nbins: 3}}]
""")
run_workflow_file("workflow.yaml", outdir="build")
histogram = pickle.loads(Path("build/artifacts/histograms/X.pkl").read_bytes())
print("events in the histogram:", int(histogram.sum()))
