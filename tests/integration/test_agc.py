"""The ttbar analysis of workflow/agc: its histograms are those of two other programs."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.integration.conftest import Run
from tests.support import agc

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
#: One variation of each kind, and what they change: enough to see that an analysis is right.
DATASETS = ("ttbar", "wjets", "ttbar_ME_var")
FEW = ("pt_scale_up", "pt_res_up", "btag_var_{jet}_{direction}", "scale_var_{direction}", "ME_var")


def lay_out(folder: Path, total: int, per_file: int) -> Path:
    shutil.copytree(
        ROOT / "workflow/agc", folder, ignore=shutil.ignore_patterns("data", "build", "__pycache__")
    )
    program = [sys.executable, "make_events.py", "--events", str(total)]
    subprocess.run([*program, "--per-file", str(per_file)], cwd=folder, check=True)
    return folder


def run(smk: Run, folder: Path) -> agc.Bins:
    done = smk("workflow.yaml", "-o", "build", "-j", "2", cwd=folder)
    assert done.returncode == 0, done.stderr[-5000:]
    return agc.of_build(folder / "build")


def test_a_few_variations_event_by_event(smk: Run, tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "agc", 4000, 4000)
    listed = folder / "data/datasets.yaml"
    datasets = yaml.safe_load(listed.read_text())["data"]["datasets"]
    datasets = [one for one in datasets if one["name"] in DATASETS]
    listed.write_text(yaml.safe_dump({"data": {"datasets": datasets}}))
    document = yaml.safe_load((folder / "workflow.yaml").read_text())
    variations = document["systematics"]["variations"]
    variations[:] = [one for one in variations if one["name"] in FEW]
    assert len(variations) == len(FEW)
    for one in variations:
        for axis, values in one.get("matrix", {}).items():
            one["matrix"][axis] = values[:1]
    (folder / "workflow.yaml").write_text(yaml.safe_dump(document))

    found = run(smk, folder)
    kept = {"nominal", "pt_scale_up", "btag_var_0_up", "scale_var_up", "ME_var"}
    assert {variation for _, variation, _ in found} == {*kept, "pt_res_up"}
    wanted = {key: bins for key, bins in agc.expected(listed).items()
              if key[1] in kept}  # fmt: skip
    assert {variation for _, variation, _ in wanted} == kept
    assert agc.differences(wanted, found) == []
    nominal, smeared = (found["HT4j1b", name, "ttbar"][0] for name in ("nominal", "pt_res_up"))
    assert (nominal != smeared).any()
    assert sum(smeared) == pytest.approx(sum(nominal), rel=0.2)


def test_nothing_is_said_of_it(smk: Run, tmp_path: Path) -> None:
    done = smk("check", "workflow.yaml", cwd=lay_out(tmp_path / "agc", 4000, 4000))
    assert (done.returncode, "ready to run" in done.stdout, done.stderr) == (0, True, "")


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("coffea") is None, reason="coffea is not installed")
def test_all_variations_with_coffea(smk: Run, tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "agc", 100_000, 10_000)
    program = [sys.executable, str(ROOT / "tests/benchmarks/agc_coffea.py")]
    subprocess.run([*program, "data/datasets.yaml", "coffea.pkl"], cwd=folder, check=True)
    found, wanted = run(smk, folder), agc.of_coffea(folder / "coffea.pkl")
    assert len({variation for _, variation, _ in found}) == 17
    assert {variation for _, variation, _ in wanted} == {variation for _, variation, _ in found}
    assert agc.differences(wanted, found) == []
