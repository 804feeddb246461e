"""Prints:

    events in the histogram: 400

Expected: `events in the histogram: 100`.
"""

import os
import pickle
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
pq.write_table(pa.table({"x": [1.0] * 100}), "events.parquet")
Path("workflow.yaml").write_text("""
use: {profiles: [hep, "fasthep_workshop:registry"]}
data:
  datasets: [{name: a, nevents: 100, files: [events.parquet]}]
sources:
  events: {kind: workshop.parquet}
analysis:
  stages:
    - id: X
      op: hep.hist
      params:
        axes: [{name: x, source: x, type: regular, bins: {low: 0, high: 2, nbins: 2}}]
""")
run_workflow_file("workflow.yaml", outdir="build", chunk_size=25)
histogram = pickle.loads(Path("build/artifacts/histograms/X.pkl").read_bytes())
print("events in the histogram:", int(histogram.sum()))
