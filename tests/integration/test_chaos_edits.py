"""Edits at random moments of a run: every finished run is one of a single version of all files.

A run of 120 partitions, 6 datasets and two variations, with both granularities and bundles of any
size, while modules, tables, input files and the workflow are edited. What comes out follows from
the values of one moment; the next call, undisturbed, is of the last one.
``FASTHEP_SMK_EDIT_ROUNDS`` is how many runs there are, ``FASTHEP_SMK_EDIT_SEED`` the first seed.
Where it is not said how many, there is one, of 3 datasets.
"""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from tests.support import events

pytestmark = pytest.mark.integration

ROUNDS = int(os.environ.get("FASTHEP_SMK_EDIT_ROUNDS", "1"))
SEED = int(os.environ.get("FASTHEP_SMK_EDIT_SEED", "1"))
DATASETS = "abcdef" if "FASTHEP_SMK_EDIT_ROUNDS" in os.environ else "abc"
CHUNK, PARTS = 5, 10

MODULE = """\
import time
from pathlib import Path
import awkward as ak
from my_factor import FACTOR

SPEC = {{
    "name": "my.weigh", "kind": "transform", "version": "1.0",
    "input": {{"name": "stream", "kind": "event_stream", "required": True}},
    "params": {{"output": {{"required": True}}}},
    "result": {{"kind": "event_stream"}},
    "provides": {{"symbols": [{{"from": "params.output", "kind": "field_list"}}]}},
}}
FACTOR_HERE = {module}

def weigh(*, stream, output, **_):
    table = float(Path("table" + ".txt").read_text())
    time.sleep(0.02)
    return ak.with_field(stream, 0 * stream.MET_px + FACTOR * FACTOR_HERE * table, output)
"""


@dataclass(frozen=True)
class Version:
    """What the results follow from; ``events`` are the numbers in the second file of a dataset."""

    module: int = 1
    helper: int = 1
    table: int = 1
    scale: int = 1
    events: tuple[tuple[str, int], ...] = tuple((name, CHUNK * PARTS) for name in DATASETS)

    def sums(self) -> dict[str, float]:
        weight = self.module * self.helper * self.table * self.scale
        return {name: weight * float(CHUNK * PARTS + count) for name, count in self.events}


class Project:
    """The analysis in a folder, with all versions that it has had."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance = folder, chance
        self.versions = [Version()]
        self.options = [
            "--chunk-size", str(CHUNK), "-j", "2", "-q",
            "--granularity", chance.choice(["auto", "stage"]),
            # Without bundles a run takes several times as long.
            "--bundle", chance.choices(["auto", "1", "7", "30"], [4, 1, 4, 4])[0],
        ]  # fmt: skip
        for number, name in enumerate(DATASETS):
            for file in (0, 1):
                path = folder / f"data/{name}_{file}.root"
                events.zmumu_file(path, CHUNK * PARTS, 2 * number + file)
        self._write(Version())

    def _write(self, version: Version) -> None:
        before = self.versions[-1]
        (self.folder / "my_ops.py").write_text(MODULE.format(module=version.module))
        (self.folder / "my_factor.py").write_text(f"FACTOR = {version.helper}\n")
        (self.folder / "table.txt").write_text(str(version.table))
        self._replace("workflow.yaml", yaml.safe_dump(self._workflow(version.scale)))
        for name, count in version.events:
            if (name, count) not in before.events:
                new = self.folder / "new.root"
                events.zmumu_file(new, count, self.chance.randrange(1000))
                new.replace(self.folder / f"data/{name}_1.root")

    def _replace(self, name: str, text: str) -> None:
        new = self.folder / f".{name}.new"
        new.write_text(text)
        new.replace(self.folder / name)

    def _workflow(self, scale: int) -> dict[str, object]:
        datasets = [{"name": name, "files": [f"data/{name}_{n}.root" for n in (0, 1)]}
                    for name in DATASETS]  # fmt: skip
        bins = {"low": -1e9, "high": 1e9, "nbins": 1}
        axes = [{"name": "x", "source": "MET_px", "type": "regular", "bins": bins}]
        hist = {"dataset_axis": True, "storage": "weighted", "axes": axes}
        variations = [{"name": "double", "weight": {"multiply": ["2.0"]}}]
        return {
            "version": "1.0",
            "use": {"profiles": ["hep"]},
            "registry": {
                "transforms": {"my.weigh": {"spec": "my_ops:SPEC", "impl": "my_ops:weigh"}}
            },
            "data": {"defaults": {"eventtype": "mc", "tree_primary": "events"},
                     "datasets": datasets},
            "sources": {
                "events": {"kind": "root_tree", "tree": "events", "branches": ["MET_px"]}
            },
            "systematics": {"include_nominal": True, "variations": variations},
            "analysis": {
                "globals": {"scale": float(scale)},
                "stages": [
                    {"id": "Weighed", "op": "my.weigh", "params": {"output": "Weight"}},
                    {"id": "Hist", "op": "hep.hist",
                     "params": {**hist, "weight_expr": "Weight * scale"}},
                ],
            },
        }  # fmt: skip

    def edit(self) -> None:
        """Change one thing, or undo what was changed last."""
        last = self.versions[-1]
        kind = self.chance.choice(["module", "helper", "table", "scale", "events", "undo"])
        if kind == "undo":
            version = self.chance.choice(self.versions)
        elif kind == "events":
            name = self.chance.choice(DATASETS)
            count = CHUNK * self.chance.randint(PARTS - 3, PARTS + 3)
            version = replace(
                last, events=tuple((n, count if n == name else c) for n, c in last.events)
            )
        else:
            version = replace(last, **{kind: self.chance.choice([1, 2, 3, 5, 7])})
        self._write(version)
        self.versions.append(version)

    def run(self, *, edits: int) -> str:
        command = [sys.executable, "-m", "fasthep_smk", "workflow.yaml", *self.options]
        with (self.folder / "printed.txt").open("w") as printed:
            process = subprocess.Popen(command, cwd=self.folder, stdout=printed, stderr=printed)
            for _ in range(edits):
                time.sleep(self.chance.uniform(0.5, 4.0))
                if process.poll() is not None:
                    break
                self.edit()
            status = process.wait(300)
        text = (self.folder / "printed.txt").read_text()
        assert status == 0 or "changes all the time" in text or "changed" in text, text
        return text if status == 0 else ""

    def sums(self, variation: str) -> dict[str, float]:
        path = self.folder / "build/artifacts" / variation / "histograms/Hist.pkl"
        found = pickle.loads(path.read_bytes())
        return {name: float(found.values()[n].sum()) for n, name in enumerate(found.axes[0])}


@pytest.mark.parametrize("seed", range(SEED, SEED + ROUNDS))
def test_a_finished_run_is_of_one_version(tmp_path: Path, seed: int) -> None:
    project = Project(tmp_path, random.Random(seed))
    about = f"seed {seed}, {project.options}"
    if project.run(edits=project.chance.randint(1, 3)):
        found = project.sums("nominal")
        # The workflow counts as it was when the run began, or began again.
        possible = [
            replace(version, scale=other.scale).sums()
            for number, version in enumerate(project.versions)
            for other in project.versions[: number + 1]
        ]
        assert found in possible, (about, found, project.versions)
        assert project.sums("double") == {name: 2 * value for name, value in found.items()}, about
    assert project.run(edits=0), about
    assert project.sums("nominal") == project.versions[-1].sums(), (about, project.versions)
    assert project.sums("double") == {k: 2 * v for k, v in project.versions[-1].sums().items()}
