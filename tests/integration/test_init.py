"""``fasthep-smk init`` writes an analysis that runs at once."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import yaml

import fasthep_smk
from tests.integration.conftest import Run
from tests.support import events

pytestmark = pytest.mark.integration

FILES = {
    "workflow.yaml", "workflow.schema.json", "my_ops.py", "make_events.py",
    "data/data_0.root", "data/data_1.root", "data/zmumu_0.root", "data/other_0.root",
}  # fmt: skip


def listed(folder: Path) -> set[str]:
    return {str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file()}


def test_the_first_analysis_runs_and_shows_the_peak(tmp_path: Path, smk: Run) -> None:
    made = smk("init", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert listed(tmp_path) == FILES
    assert made.stdout.endswith("\nnext:\n    fasthep-smk workflow.yaml\n")
    checked = smk("check", "workflow.yaml", cwd=tmp_path)
    assert (checked.returncode, checked.stderr) == (0, "")
    done = smk("workflow.yaml", "-j", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "build/artifacts/plots/mass.png").stat().st_size > 10_000
    assert (tmp_path / "build/artifacts/tables/cutflow.csv").is_file()
    results = fasthep_smk.load_results(tmp_path / "build")
    mass = results.histogram("Mass")
    counts = {name: mass[{"dataset": name}].values() for name in ("data", "zmumu", "other")}
    assert counts["data"].argmax() == counts["zmumu"].argmax() == 15, "the bin of the Z"
    expected = counts["zmumu"].sum() + counts["other"].sum()
    assert counts["data"].sum() == pytest.approx(expected, rel=0.05)
    pools = yaml.safe_load((tmp_path / "workflow.yaml").read_text())["execution"]["pools"]
    explained = smk("explain", "workflow.yaml", cwd=tmp_path).stdout
    for name in pools:
        assert f"\n{name} " in explained, "each pool is used"


def test_a_folder_that_others_may_write_to_is_told(tmp_path: Path, smk: Run) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    made = smk("init", "open", cwd=tmp_path)
    assert "    chmod go-w open " in made.stdout
    (tmp_path / "open").chmod(0o755)
    assert smk("check", "workflow.yaml", cwd=tmp_path / "open").returncode == 0


def test_everybody_gets_the_same_events(tmp_path: Path, smk: Run) -> None:
    import uproot

    contents = []
    for name in ("one", "two"):
        assert smk("init", name, cwd=tmp_path).returncode == 0
        with uproot.open(tmp_path / name / "data/data_1.root") as file:
            columns = file["events"].arrays(library="np")
        texts = [repr(columns[key].tolist()) for key in sorted(columns)]
        contents.append(hashlib.sha256("".join(texts).encode()).hexdigest())
    assert contents[0] == contents[1]


def test_what_is_there_stays(tmp_path: Path, smk: Run) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "data").mkdir()
    (tmp_path / "my_ops.py").write_text("mine")
    refused = smk("init", ".", cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr == (
        "fasthep-smk: my_ops.py already exists (and 1 more): nothing was written\n"
        "    hint: fasthep-smk init NEW_FOLDER writes into a new folder\n"
    )
    assert listed(tmp_path) == {"notes.txt", "my_ops.py"}
    (tmp_path / "data").rmdir()
    (tmp_path / "my_ops.py").unlink()
    assert smk("init", ".", cwd=tmp_path).returncode == 0
    assert listed(tmp_path) == FILES | {"notes.txt"}


def test_the_folder_may_be_anywhere_and_of_any_name(tmp_path: Path, smk: Run) -> None:
    made = smk("init", "new/it's mine", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert listed(tmp_path / "new/it's mine") == FILES
    assert """    cd 'new/it'"'"'s mine'\n""" in made.stdout


def test_a_file_in_its_place_is_one_message(tmp_path: Path, smk: Run) -> None:
    (tmp_path / "taken").write_text("")
    for name in ("taken", "taken/below"):
        refused = smk("init", name, cwd=tmp_path)
        assert refused.returncode in (1, 2)
        assert "Traceback" not in refused.stderr
        assert "taken" in refused.stderr
    assert listed(tmp_path) == {"taken"}


def first_histogram(folder: Path, smk: Run, *arguments: str) -> tuple[str, float]:
    """Write a workflow for a file and run it; return what was said, and the entries."""
    made = smk("init", "--from-root", *arguments, cwd=folder)
    assert made.returncode == 0, made.stderr
    done = smk("workflow.yaml", "-q", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "build/artifacts/plots/first.png").is_file()
    filled = fasthep_smk.load_results(folder / "build").histogram("First")
    return made.stdout, float(filled.sum(flow=True))


def test_a_file_of_ones_own_becomes_a_histogram(tmp_path: Path, smk: Run) -> None:
    events.zmumu_file(tmp_path / "my events.root", 50, 1)
    said, filled = first_histogram(tmp_path, smk, "my events.root")
    assert filled == 50
    tree = said.splitlines()[0]
    assert tree.startswith("tree events: 50 entries, ") and tree.endswith(" branches, used")
    assert re.search(r"^    Muon_Px +float\[\]$", said, re.MULTILINE)
    assert "first histogram: MET_px" in said


def test_jagged_values_of_an_rntuple(tmp_path: Path, smk: Run) -> None:
    columns = {"j": ak.Array([[1.0, 2.0], [], [3.0]])}
    events.rntuple_file(tmp_path / "a.root", columns)
    _, filled = first_histogram(tmp_path, smk, "a.root", "--tree", "tuple")
    assert filled == 3


def test_a_branch_whose_name_no_expression_can_hold(tmp_path: Path, smk: Run) -> None:
    events.named_branch_file(tmp_path / "a.root", "a: b #\n*", np.arange(7.0), tree="d/t")
    _, filled = first_histogram(tmp_path, smk, "a.root")
    assert filled == 7


def test_a_tree_needs_a_file(tmp_path: Path, smk: Run) -> None:
    refused = smk("init", "--tree", "events", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--from-root" in refused.stderr
    assert listed(tmp_path) == set()
