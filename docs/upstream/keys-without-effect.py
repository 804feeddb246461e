"""Prints:

    the results are those without bins: True
    the results are those without weight_expr: True
    the results are those without cuts: True
    the results are those without in: True
    the results are those without when and out: True

Expected: an error for each of these keys.
"""

import json
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
BINS = "bins: {low: 0, high: 10, nbins: 10}"
HIST = f"op: hep.hist, params: {{axes: [{{name: x, source: x, type: regular, {BINS}}}]%s}}"
COUNTS = "op: hep.hist, params: {axes: [{name: x, source: good, type: int%s}]}"
CUTS = "op: hep.selection.cutflow, params: {selection: {All: {steps: ['x > 2']%s}}}"
WEIGHTS = ", storage: weighted, variations: {weights: {nominal: '1.0 + x'}}"


def products(stage):
    Path("workflow.yaml").write_text(f"""
use: {{profiles: [hep]}}
data:
  datasets: [{{name: a, files: [events.root]}}]
analysis:
  stages:
    - {{id: Before, op: hep.define, params: {{variables: [{{name: y, expr: x}}]}}}}
    - {{id: Stage, {stage}}}
""")
    build = Path(tempfile.mkdtemp())
    run_workflow_file("workflow.yaml", outdir=build)
    (path,) = (build / "artifacts").rglob("Stage.*")
    if path.suffix == ".json":
        return json.loads(path.read_text())["nodes"]
    return str(pickle.loads(path.read_bytes()).to_numpy(flow=True))


for without, added, key in [
    (COUNTS % "", COUNTS % f", {BINS}", "bins"),
    (HIST % WEIGHTS, HIST % (WEIGHTS + ", weight_expr: good"), "weight_expr"),
    (CUTS % "", CUTS % ", cuts: ['x > 8']", "cuts"),
    (CUTS % "" + ", from: Before", CUTS % "" + ", from: Before, in: events", "in"),
    (CUTS % "", CUTS % "" + ", when: final, out: elsewhere", "when and out"),
]:
    print(f"the results are those without {key}:", products(without) == products(added))
