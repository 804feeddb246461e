"""Prints:

    weigthed, {low: 0, high: 9, nbins: 9}: Double, edges 0 … 9
    count, {low: 9, high: 0, nbins: 9}: Double, edges 9 … 0
    count, {low: 0, high: 9, nbins: -9}: TypeError
    count, [0, 3, 9]: TypeError

Expected: an error from the compiler for each line.
"""

import contextlib
import os
import pickle
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("events.root") as out:
    out.mktree("events", {"x": np.arange(10.0), "good": np.arange(10) % 2})
for storage, bins in [
    ("weigthed", "{low: 0, high: 9, nbins: 9}"),
    ("count", "{low: 9, high: 0, nbins: 9}"),
    ("count", "{low: 0, high: 9, nbins: -9}"),
    ("count", "[0, 3, 9]"),
]:
    Path("workflow.yaml").write_text(f"""
use: {{profiles: [hep]}}
data:
  datasets: [{{name: a, files: [events.root]}}]
analysis:
  stages:
    - id: Hist
      op: hep.hist
      params:
        storage: {storage}
        axes: [{{name: x, source: x, type: regular, bins: {bins}}}]
""")
    try:
        with contextlib.redirect_stdout(None):
            run_workflow_file("workflow.yaml", outdir="build")
        found = pickle.loads(Path("build/artifacts/histograms/Hist.pkl").read_bytes())
        edges = found.axes[0].edges
        said = f"{found.storage_type.__name__}, edges {edges[0]:.0f} … {edges[-1]:.0f}"
    except Exception as error:
        said = type(error).__name__
    print(f"{storage}, {bins}: {said}")
