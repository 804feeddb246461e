"""The workflow that is written for a ROOT file."""

from __future__ import annotations

import math
from pathlib import Path

import awkward as ak
import hist
import numpy as np
import pytest
import uproot
import yaml
from jsonschema import Draft202012Validator

from fasthep_smk.config.schema import bundled
from fasthep_smk.contrib.measure.from_root import (
    Tree,
    init_from_root,
    sample,
    trees_in,
    value_of,
    workflow_text,
)
from fasthep_smk.flow.workflow_checks import document_findings
from fasthep_smk.util.errors import WrongArgument
from tests.support import events

EDITOR = Draft202012Validator(bundled())
HOSTILE = [
    "met.pt", "a-b", "with space", "class", "yes", "1st", "a: b #c", "quo'te\"", "ünï", "x[0]",
    "star*", "nl\nx", "s/t", "./u.v", "x;1", "{x}", "$x$", "null", "dataset_name", "- a", "%",
    "é" * 90, "*a", "&a", "!x", "@x", "", " ", "weight", "sample", "threads",
]  # fmt: skip


def written(name: str = "x", typename: str = "float", *, values: tuple[float, ...] = ()) -> str:
    return workflow_text("f.root", "tree", name, typename, np.array(values))


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_of_a_branch_is_quoted(name: str) -> None:
    text = written(name, values=(0.0, 1.0))
    document = yaml.safe_load(text)
    assert document["sources"]["events"]["branches"] == [name]
    (stage,) = document["analysis"]["stages"]
    (axis,) = stage["params"]["axes"]
    fields = document.get("fields", {})
    assert fields.get(axis["source"], {"branch": axis["source"]})["branch"] == name
    assert axis["source"].isidentifier()
    hist.Hist(hist.axis.Regular(2, 0, 1, name=axis["name"])).fill(**{axis["name"]: [0.5]})
    assert document_findings(document, workflow="w.yaml") == []
    assert list(EDITOR.iter_errors(document)) == []


@pytest.mark.parametrize(
    ("values", "typename", "bins"),
    [
        ((0.0, 1.0), "float", {"low": 0, "high": 1, "nbins": 50}),
        ((-130.2, 117.0), "float", {"low": -135, "high": 120, "nbins": 51}),
        ((2.0, 7.0), "int32_t", {"low": 1.5, "high": 7.5, "nbins": 6}),
        ((0.0, 1e6), "int32_t", {"low": 0, "high": 1000000, "nbins": 50}),
        ((3.0,), "float", {"low": 2.5, "high": 3.5, "nbins": 50}),
        ((), "float", {"low": 0, "high": 1, "nbins": 50}),
    ],
)
def test_edges_are_round(values: tuple[float, ...], typename: str, bins: dict[str, float]) -> None:
    (stage,) = yaml.safe_load(written(typename=typename, values=values))["analysis"]["stages"]
    assert stage["params"]["axes"][0]["bins"] == bins


@pytest.mark.parametrize("values", [(2.0**63, 2.0**63), (-1e299, -1e299), (-1e299, 1e299)])
@pytest.mark.parametrize("typename", ["double", "uint64_t"])
def test_edges_of_huge_values_are_apart(values: tuple[float, ...], typename: str) -> None:
    (stage,) = yaml.safe_load(written(typename=typename, values=values))["analysis"]["stages"]
    bins = stage["params"]["axes"][0]["bins"]
    assert bins["low"] < bins["high"]


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 0.3, 7.0, 1e5, 1e17, 1e300])
@pytest.mark.parametrize("offset", [0.0, 1.0, -1e3])
def test_edges_hold_the_values(scale: float, offset: float) -> None:
    values = tuple(offset + scale * x for x in (0.1, 0.2, 0.35, 1.0))
    (stage,) = yaml.safe_load(written(values=values))["analysis"]["stages"]
    bins = stage["params"]["axes"][0]["bins"]
    assert 0 < bins["nbins"] <= 110
    assert bins["low"] < bins["high"]
    assert math.isfinite(float(bins["high"]))
    slack = (bins["high"] - bins["low"]) * 1e-3
    assert bins["low"] - slack <= min(values)
    assert max(values) <= bins["high"] + slack


@pytest.mark.parametrize(
    ("columns", "first"),
    [
        ({"run": "i", "event": "i", "nJet": "i", "pt": "f"}, "pt"),
        ({"flag": "b", "njets": "i"}, "njets"),
        ({"event": "i"}, "event"),
    ],
)
def test_a_branch_of_floating_point_is_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: dict[str, str], first: str
) -> None:
    monkeypatch.chdir(tmp_path)
    kinds = {"i": np.arange(9), "f": np.linspace(0, 1, 9), "b": np.arange(9) > 3}
    with uproot.recreate("f.root") as out:
        out.mktree("t", {name: kinds[kind].dtype for name, kind in columns.items()})
        out["t"].extend({name: kinds[kind] for name, kind in columns.items()})
    text, _ = init_from_root("f.root", Path("out"), None)
    assert text.endswith(f"first histogram: {first}\n\n")
    document = yaml.safe_load(Path("out/workflow.yaml").read_text())
    assert document["data"]["datasets"][0]["files"] == ["../f.root"]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("f.roo", None, "did you mean f.root?"),
        ("text.root", b"just text", "is not a readable ROOT file"),
        ("empty.root", b"", "is empty"),
        (".", None, "is a folder"),
    ],
)
def test_what_is_no_file_of_trees_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes | None, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    events.named_branch_file(tmp_path / "f.root", "x", [1.0])
    if content is not None:
        Path(name).write_bytes(content)
    with pytest.raises(WrongArgument) as error:
        init_from_root(name, Path("out"), None)
    assert told in str(error.value)
    assert error.value.exit_code == 2
    assert not Path("out").exists()


def test_a_tree_without_numbers_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    events.named_branch_file(tmp_path / "f.root", "x", [True, False])
    with pytest.raises(WrongArgument, match="no branch of the tree holds numbers"):
        init_from_root("f.root", Path("out"), None)


def tree_of(path: Path) -> Tree:
    (found,) = trees_in(str(path))
    return found


def test_types(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "a.root") as out:
        columns = {
            "i": "int32",
            "flag": "bool",
            "three": np.dtype((np.float32, (3,))),
            "text": "string",
            "many": "var * float64",
        }
        out.mktree("folder/tree", columns)
    tree = tree_of(tmp_path / "a.root")
    assert (tree.name, tree.entries) == ("folder/tree", 0)
    assert {name: value_of(kind) for name, kind in tree.branches.items()} == {
        "i": "int32_t",
        "flag": "bool",
        "three": "float",
        "text": None,
        "nmany": "int32_t",
        "many": "double",
    }


def test_an_rntuple_is_a_tree(tmp_path: Path) -> None:
    columns = {"x": np.arange(3.0), "j": ak.Array([[1, 2], [], [3]]), "s": ["a", "b", "c"]}
    events.rntuple_file(tmp_path / "a.root", columns)
    tree = tree_of(tmp_path / "a.root")
    values = {name: value_of(kind) for name, kind in tree.branches.items()}
    assert values == {"x": "double", "j": "int64_t", "s": None}
    assert sample(str(tmp_path / "a.root"), tree.name, "j").tolist() == [1, 2, 3]


def test_the_tree_with_most_entries_is_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with uproot.recreate("a.root") as out:
        for name, entries in (("few", 2), ("most", 5), ("old", 1)):
            out.mktree(name, {"x": "float64"})
            out[name].extend({"x": np.zeros(entries)})
        out["h"] = np.histogram([1, 2, 3])
    trees = trees_in("a.root")
    assert [(one.name, one.entries) for one in trees] == [("most", 5), ("few", 2), ("old", 1)]
    for name, used in ((None, "most"), ("few", "few")):
        text, _ = init_from_root("a.root", Path(used), name)
        lines = [line.partition(":")[0] for line in text.splitlines() if line.endswith(", used")]
        assert lines == [f"tree {used}"]
    with pytest.raises(WrongArgument, match="did you mean 'few'") as error:
        init_from_root("a.root", Path("three"), "fwe")
    assert "expected: most, few, old" in str(error.value)


def test_a_file_without_a_tree_says_what_it_holds(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "a.root") as out:
        out["h"] = np.histogram([1, 2, 3])
    with pytest.raises(WrongArgument, match="the file has no tree") as error:
        trees_in(str(tmp_path / "a.root"))
    assert "TH1D" in str(error.value)


def test_a_real_schema(tmp_path: Path) -> None:
    events.zmumu_file(tmp_path / "a.root", 20, 1)
    branches = tree_of(tmp_path / "a.root").branches
    assert (branches["Muon_Px"], branches["MET_px"]) == ("float[]", "float")
