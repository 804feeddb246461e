"""Prints:

    (jetId & 1) != 0: [[40.0, 30.0]]
    jetId & 1: [[50.0, 40.0, 40.0]]

Expected: an error for the second line, or the same result as in the first.
"""

import os
import tempfile
from pathlib import Path

import awkward as ak
import uproot
from hepflow.api import run_workflow_file

os.chdir(tempfile.mkdtemp())
with uproot.recreate("events.root") as out:
    pt, identity = ak.Array([[50.0, 40.0, 30.0]]), ak.Array([[0, 1, 3]])
    out.mktree("events", {"Jet_pt": pt, "Jet_jetId": identity})
for cut in ("(jetId & 1) != 0", "jetId & 1"):
    Path("workflow.yaml").write_text(f"""
use: {{profiles: [hep]}}
data:
  datasets: [{{name: a, files: [events.root]}}]
analysis:
  stages:
    - id: Good
      op: hep.select_objects
      params: {{collection: Jet, output: Good, keep: [pt], selection: ["{cut}"]}}
      write: {{kind: root_tree, path: skim.root, keep: [Good_pt]}}
""")
    run_workflow_file("workflow.yaml", outdir="build")
    (path,) = Path("build").rglob("*.root")
    with uproot.open(path) as found:
        print(f"{cut}: {found['events']['Good_pt'].array().tolist()}")
