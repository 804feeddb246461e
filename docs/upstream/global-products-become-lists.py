"""Prints:

    ValueError: schema validation report inputs must be schema-comparison objects

Expected: `the report is there`, as for a dataset with one file.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
for name in ("one", "two"):
    with uproot.recreate(f"{name}.root") as out:
        out.mktree("events", {"x": np.ones(10)})
Path("workflow.yaml").write_text("""
use: {profiles: [hep]}
data:
  datasets: [{name: a, files: [one.root, two.root]}]
analysis:
  stages:
    - {id: One, op: curator.root_tree_schema, needs: [], params: {dataset: a, tree: events, file: one.root}}
    - {id: Two, op: curator.root_tree_schema, needs: [], params: {dataset: a, tree: events, file: two.root}}
    - id: Compare
      op: curator.compare_schemas
      from: [{node: One, port: schema, as: reference}, {node: Two, port: schema, as: target}]
    - id: Back
      op: curator.compare_schemas
      from: [{node: Two, port: schema, as: reference}, {node: One, port: schema, as: target}]
    - id: Report
      op: hep.render.schema_validation
      from: [{node: Compare, port: comparison, as: forward}, {node: Back, port: comparison, as: backward}]
      params: {outputs: [{path: reports/schemas.md, format: markdown}]}
""")
try:
    run_workflow_file("workflow.yaml", outdir="build")
    print("the report is there")
except Exception as error:
    print(f"{type(error).__name__}: {error}")
