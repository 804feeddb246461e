"""The examples of the reference (``docs/examples.yaml``): each is right, and all of them run.

In the short form the first events are those of all examples at once, at the start of their run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import yaml

import fasthep_smk
from fasthep_smk.cli.main import main
from tests.support import credentials, examples, unusual, warm
from tests.support.forms import LONG

pytestmark = pytest.mark.integration

EXAMPLES = examples.load()
#: Where there are several plans, FAST-HEP does not find what reports are made of.
ALONE = "Sections/systematics"
#: Some of the files in the build folder, by their folders; one writes into the folder of the run.
MADE = {
    "artifacts/comparisons": ("Compare.json", "Back.json"),
    "artifacts/cutflows": ("Cuts.json", "HighMet.json", "Looked.json", "Skim.json"),
    "artifacts/files/slim": ("dy.root", "dy/0_0.root", "dy/1_0.root"),
    "artifacts/histograms": ("Met.root", "Met.uhi.json"),
    "artifacts/plots": tuple(
        f"{name}.png" for name in ["met", "met_log", "ratio", "Stack", "Map", "Steps", "Projected"]
    ),
    "artifacts/schemas": ("Schema.json",),
    "artifacts/tables": ("cuts.csv",),
    "reports": (
        "provenance.html",
        "short.md",
        "schemas.md",
        "schema/stage_Jets/events__dy__0.json",
    ),
    "../reports": ("branches.json",),
}


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return examples.make_data(tmp_path_factory.mktemp("examples"))


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    """A valid token, which one of the examples requires."""
    monkeypatch.setenv("BEARER_TOKEN", credentials.token(None))


@pytest.mark.parametrize("first_events", [pytest.param(True, marks=LONG), False])
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_right(
    name: str,
    first_events: bool,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    options = examples.write([name], tmp_path, data)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    if not first_events:
        monkeypatch.setenv("FASTHEP_SMK_PREFLIGHT", "")
    capfd.readouterr()
    status = main(["check", "workflow.yaml", "--shrink-to-fit", *options])
    said = capfd.readouterr()
    assert (status, "ready to run" in said.out) == (0, True), said
    warnings = [line for line in said.err.splitlines() if " instead of " not in line]
    assert not warnings, said.err  # but that this machine has less than a pool


def run(names: Iterable[str], folder: Path, data: Path) -> Path:
    """Run examples as one workflow, which also tells its columns; return the build folder."""
    options = examples.write(names, folder, data)
    stages = [EXAMPLES[name].content["id"] for name in names if EXAMPLES[name].makes]
    observer = {
        "kind": "hep.schema_snapshot",
        "at": [f"stage.{one}" for one in stages],
        "out": "made",
    }
    workflow = folder / "workflow.yaml"
    document = yaml.safe_load(workflow.read_text())
    document["observers"] = [*document.get("observers", ()), *([observer] if stages else ())]
    workflow.write_text(yaml.safe_dump(document, sort_keys=False))
    how = ["-j2", "--bundle", "9", "--shrink-to-fit", *options]
    done = warm.run("workflow.yaml", *how, cwd=folder, env=unusual.environment(folder))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return folder / "build"


def test_all_of_them_run(data: Path, tmp_path: Path) -> None:
    names = [name for name in EXAMPLES if name != ALONE]
    build = run(names, tmp_path, data)
    results = fasthep_smk.load_results(build)
    assert set(results.histograms()) >= {"JetNumber", "RecoEt", "MetOnce", "PtUp", "Met"}
    for name, histogram in results.histograms().items():
        assert abs(np.sum(histogram.values())) > 0, name
    for folder, files in MADE.items():
        assert [name for name in files if not (build / folder / name).stat().st_size] == []
    for one in map(EXAMPLES.__getitem__, names):
        if one.makes:
            report = f"reports/schema/made/stage_{one.content['id']}/events__ttbar__0.json"
            fields = json.loads((build / report).read_text())["fields"]
            assert {*one.makes} <= {*fields}, one.name


def test_one_with_a_plan_for_each_variation_runs(data: Path, tmp_path: Path) -> None:
    results = fasthep_smk.load_results(run([ALONE], tmp_path, data))
    up, down = (
        np.sum(results.histogram("JetNumber", name).values())
        for name in ("weight_up", "weight_down")
    )
    assert up / down == pytest.approx(1.02 / 0.98)
