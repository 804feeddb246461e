"""Prints:

    opened 8 times

Expected: 1; or 2, if nothing is kept between two compiles.
"""

import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy
import uproot
from fasthep_curator.compile_hooks.root_tree_metadata import inspect_root_tree_datasets

file = str(Path(tempfile.mkdtemp()) / "events.root")
with uproot.recreate(file) as out:
    out["events"] = {"x": numpy.arange(3.0)}
opened = []
uproot_open = uproot.open
uproot.open = lambda path, **options: opened.append(path) or uproot_open(path, **options)
for _ in range(2):
    context = SimpleNamespace(
        plan_context={"datasets": {"dy": {"files": [file] * 4}}},
        normalized={"sources": {"events": {"kind": "root_tree", "tree": "events"}}},
    )
    inspect_root_tree_datasets(context)
print("opened", len(opened), "times")
