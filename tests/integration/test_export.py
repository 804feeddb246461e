"""``smk: {export: [root, uhi]}``: made with the histogram, declared with it, and gone with it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import uproot
import yaml

from tests.integration.conftest import WORKFLOW, Run

pytestmark = pytest.mark.integration

HISTOGRAMS = Path("build/artifacts/histograms")
BOTH = {"Met.root", "Met.uhi.json"}


def exported(folder: Path, *formats: str, bins: int = 20) -> None:
    workflow = yaml.safe_load(WORKFLOW)
    workflow["analysis"]["stages"][3]["params"]["axes"][0]["bins"]["nbins"] = bins
    if formats:
        workflow["smk"] = {"export": list(formats)}
    (folder / "workflow.yaml").write_text(yaml.safe_dump(workflow))


def files_in(folder: Path) -> set[str]:
    return {path.name for path in (folder / HISTOGRAMS).iterdir()} - {"Met.pkl", "manifest.json"}


def test_exports_live_and_die_with_their_histogram(analysis: Path, smk: Run) -> None:
    def runs(jobs: int) -> None:
        done = smk("workflow.yaml", "-j", "2", cwd=analysis)
        assert done.returncode == 0, done.stderr
        said = "everything was up to date" if jobs == 0 else f"{jobs} job"
        assert done.stdout.startswith(said), done.stdout

    exported(analysis)
    runs(4)
    assert files_in(analysis) == set()
    exported(analysis, "root", "uhi")
    runs(1)  # the end of the run
    assert files_in(analysis) == BOTH
    told = json.loads(smk("why", "workflow.yaml", "--json", cwd=analysis).stdout)
    assert {f"artifacts/histograms/{name}" for name in BOTH} <= {*told["made"]}

    made = pickle.loads((analysis / HISTOGRAMS / "Met.pkl").read_bytes())
    with uproot.open(analysis / HISTOGRAMS / "Met.root") as file:
        for dataset in made.axes["dataset"]:
            found, wanted = file[f"{dataset}/Met"], made[{"dataset": dataset}]
            assert np.array_equal(found.values(flow=True), wanted.values(flow=True))
            assert np.allclose(found.axis().edges(), wanted.axes[0].edges, rtol=1e-14)
    assert json.loads((analysis / HISTOGRAMS / "Met.uhi.json").read_text())["uhi_schema"]

    runs(0)
    (analysis / HISTOGRAMS / "Met.root").unlink()
    runs(1)
    assert files_in(analysis) == BOTH

    exported(analysis, "root", bins=10)
    runs(4)
    assert files_in(analysis) == {"Met.root"}
    with uproot.open(analysis / HISTOGRAMS / "Met.root") as file:
        assert len(file["dy/Met"].axis()) == 10
    exported(analysis, bins=10)
    assert smk("workflow.yaml", cwd=analysis).returncode == 0
    assert files_in(analysis) == set()


@pytest.mark.parametrize("value", [["rot"], "root", [1]])
def test_another_format_is_refused(analysis: Path, smk: Run, value: object) -> None:
    workflow = yaml.safe_load(WORKFLOW) | {"smk": {"export": value}}
    (analysis / "workflow.yaml").write_text(yaml.safe_dump(workflow))
    done = smk("check", "workflow.yaml", cwd=analysis)
    assert done.returncode == 1
    assert "smk.export" in done.stderr
    assert "root" in done.stderr.partition("expected")[2]
