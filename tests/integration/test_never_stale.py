"""An operation reads a random mix of files, modules and variables, and random ones change.

Whatever changes, results are never stale, and no more jobs run than those of the datasets whose
operation reads it, and the end of the run. ``FASTHEP_SMK_MIXES`` is how many mixes are tried.
"""

from __future__ import annotations

import json
import os
import pickle
import random
from pathlib import Path

import pytest

from tests.support import events, warm

pytestmark = pytest.mark.integration

MIXES = int(os.environ.get("FASTHEP_SMK_MIXES", "1"))
STEPS = 6
EVENTS = {"a": 40, "b": 50, "c": 60}

WORKFLOW = """\
version: "1.0"
use: {profiles: [hep]}
registry:
  transforms:
    my.weigh: {spec: "my_ops:SPEC", impl: "my_ops:weigh"}
data:
  defaults: {eventtype: mc, tree_primary: events}
  datasets:
    - {name: a, files: [data/a.root]}
    - {name: b, files: [data/b.root]}
    - {name: c, files: [data/c.root]}
sources:
  events: {kind: root_tree, tree: events, branches: [MET_px]}
analysis:
  stages:
    - {id: Weighed, op: my.weigh, params: {output: Weight}}
    - id: Hist
      op: hep.hist
      params:
        dataset_axis: true
        storage: weighted
        weight_expr: Weight
        axes: [{name: x, source: MET_px, type: regular, bins: {low: -1e9, high: 1e9, nbins: 1}}]
"""
MODULE = """\
import importlib
import multiprocessing
import os
import subprocess
import tempfile
from pathlib import Path
import awkward as ak
import numpy as np

SPEC = {{
    "name": "my.weigh", "kind": "transform", "version": "1.0",
    "input": {{"name": "stream", "kind": "event_stream", "required": True}},
    "params": {{"output": {{"required": True}}}},
    "result": {{"kind": "event_stream"}},
    "provides": {{"symbols": [{{"from": "params.output", "kind": "field_list"}}]}},
}}
READS = {reads!r}

def value(kind, name):
    if kind == "variable":
        return float(os.environ[name])
    if kind == "module":
        return importlib.import_module(name).VALUE
    return float(WAYS[int(name[-1])](os.path.join("tables", name + ".txt")))

def through_a_link(name):
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.abspath(name), f"{{folder}}/link")
        return Path(folder, "link").read_text()

def in_a_pool(name):
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.map(np.loadtxt, [name])[0]

WAYS = [
    lambda name: Path(name).read_text(),
    through_a_link,
    in_a_pool,
    lambda name: subprocess.check_output(f"cat {{name[:-4]}}.*", shell=True),
]

def weigh(*, stream, output, ctx, **_):
    total = sum(value(*one) for one in READS[ctx["dataset_name"]])
    return ak.with_field(stream, 0 * stream.MET_px + total, output)
"""


class Mix:
    """A random choice of inputs for each dataset, and their values."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.inputs = [(kind, f"{kind}_{number}") for kind in ("file", "module", "variable")
                       for number in range(4)]  # fmt: skip
        self.reads = {name: self.random.sample(self.inputs, 4) for name in EVENTS}
        self.values = dict.fromkeys(self.inputs, 1.0)
        for number, (name, count) in enumerate(EVENTS.items()):
            events.zmumu_file(folder / f"data/{name}.root", count, number)
        (folder / "tables").mkdir()
        (folder / "workflow.yaml").write_text(WORKFLOW)
        (folder / "my_ops.py").write_text(MODULE.format(reads=self.reads))
        self.write(self.inputs)

    def write(self, inputs: list[tuple[str, str]]) -> None:
        for kind, name in inputs:
            if kind == "file":
                (self.folder / f"tables/{name}.txt").write_text(str(self.values[kind, name]))
            elif kind == "module":
                (self.folder / f"{name}.py").write_text(f"VALUE = {self.values[kind, name]}\n")

    def change(self) -> set[str]:
        """Change some inputs; return the datasets that read one of them."""
        chosen = self.random.sample(self.inputs, self.random.randint(1, 3))
        for one in chosen:
            self.values[one] = self.random.choice([1.0, 2.0, float(self.random.randint(3, 99))])
        self.write(chosen)
        return {name for name, reads in self.reads.items() if set(reads) & set(chosen)}

    def call(self, *arguments: str) -> str:
        variables = {name: str(value) for (kind, name), value in self.values.items()
                     if kind == "variable"}  # fmt: skip
        done = warm.run(*arguments, cwd=self.folder, env={**os.environ, **variables})
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def to_run(self) -> set[str]:
        """Return the datasets whose partitions would run, and rules of one job."""
        found = json.loads(self.call("why", "workflow.yaml", "--json"))["to_run"]
        return {job["job"].partition("/")[0] or job["rule"] for job in found}

    def sums(self) -> dict[str, float]:
        path = self.folder / "build/artifacts/histograms/Hist.pkl"
        found = pickle.loads(path.read_bytes())
        names = list(found.axes[0])
        return {name: float(found.values()[number].sum()) for number, name in enumerate(names)}

    def expected(self) -> dict[str, float]:
        return {name: EVENTS[name] * sum(self.values[one] for one in reads)
                for name, reads in self.reads.items()}  # fmt: skip


@pytest.mark.parametrize("seed", range(MIXES))
def test_results_are_never_stale_and_no_more_runs_than_needed(tmp_path: Path, seed: int) -> None:
    mix = Mix(tmp_path, seed)
    mix.call("workflow.yaml", "-q")
    assert mix.sums() == mix.expected()
    for _ in range(STEPS):
        before = dict(mix.values)
        concerned = mix.change()
        to_run = mix.to_run()
        assert to_run <= concerned | {"finish"}, (before, mix.values, mix.reads)
        mix.call("workflow.yaml", "-q")
        assert mix.sums() == mix.expected(), (before, mix.values, mix.reads)
