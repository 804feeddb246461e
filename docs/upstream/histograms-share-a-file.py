"""Prints:

    Two.pkl: axis 'high', 7 events

Expected: two files, one with 3 and one with 7 events; or an error from the compiler.
"""

import os
import pickle
import sys
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("events.root") as out:
    out.mktree("events", {"x": np.arange(10.0), "good": np.arange(10) % 2})
sys.path.insert(0, "")
Path("two.py").write_text("""
import hist


def run(*, stream, column, ctx=None):
    found = [hist.Hist(hist.axis.Regular(10, 0, 10, name=name)) for name in ("low", "high")]
    found[0].fill(stream[column][stream[column] < 3])
    found[1].fill(stream[column][stream[column] >= 3])
    return {"low": found[0], "high": found[1]}


SPEC = {
    "name": "two",
    "kind": "transform",
    "input": {"name": "stream", "kind": "event_stream"},
    "result": {"low": {"kind": "histogram"}, "high": {"kind": "histogram"}},
    "requires": {"symbols": [{"kind": "field_list", "from": "params.column"}]},
    "params": {"column": {"type": "string", "required": True}},
}
""")
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, files: [events.root]}]
registry: {transforms: {two: {impl: "two:run", spec: "two:SPEC"}}}
analysis:
  stages:
    - {id: Two, op: two, params: {column: x}}
""")
run_workflow_file("workflow.yaml", outdir="build")
for path in sorted(Path("build/artifacts/histograms").rglob("*.pkl")):
    found = pickle.loads(path.read_bytes())
    print(f"{path.name}: axis {found.axes[0].name!r}, {found.sum():.0f} events")
