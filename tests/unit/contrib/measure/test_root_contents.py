"""What is in a ROOT file, as ``init --from-root`` sees it."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot

from fasthep_smk.contrib.measure.root_contents import chosen, sample, trees_in
from fasthep_smk.util.errors import Findings
from tests.support import events


def test_shapes_and_types(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "a.root") as out:
        columns = {
            "i": "int32",
            "flag": "bool",
            "three": np.dtype((np.float32, (3,))),
            "text": "string",
            "many": "var * float64",
        }
        out.mktree("folder/tree", columns)
    (tree,) = trees_in("a.root", tmp_path)
    assert (tree.name, tree.entries) == ("folder/tree", 0)
    found = {one.name: (one.shape, one.value, one.is_number) for one in tree.branches}
    assert found == {
        "i": ("flat", "int32_t", True),
        "flag": ("flat", "bool", False),
        "three": ("jagged", "float", True),
        "text": ("other", None, False),
        "nmany": ("flat", "int32_t", True),
        "many": ("jagged", "double", True),
    }


def test_an_rntuple_is_a_tree(tmp_path: Path) -> None:
    columns = {"x": np.arange(3.0), "j": ak.Array([[1, 2], [], [3]]), "s": ["a", "b", "c"]}
    events.rntuple_file(tmp_path / "a.root", columns)
    (tree,) = trees_in("a.root", tmp_path)
    shapes = {one.name: one.shape for one in tree.branches}
    assert shapes == {"x": "flat", "j": "jagged", "s": "other"}
    jagged = next(one for one in tree.branches if one.name == "j")
    assert sample("a.root", tmp_path, tree, jagged, entries=2) == [1, 2]


def test_the_tree_with_most_entries_is_first(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "a.root") as out:
        for name, entries in (("few", 2), ("most", 5), ("old", 1)):
            out.mktree(name, {"x": "float64"})
            out[name].extend({"x": np.zeros(entries)})
        out["h"] = np.histogram([1, 2, 3])
    trees = trees_in("a.root", tmp_path)
    assert [(one.name, one.entries) for one in trees] == [("most", 5), ("few", 2), ("old", 1)]
    assert chosen(trees, None, file="a.root").name == "most"
    assert chosen(trees, "few", file="a.root").name == "few"
    with pytest.raises(Findings, match="did you mean 'few'") as error:
        chosen(trees, "fwe", file="a.root")
    assert "expected: most, few, old" in str(error.value)


def test_a_file_without_a_tree_says_what_it_holds(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "a.root") as out:
        out["h"] = np.histogram([1, 2, 3])
    with pytest.raises(Findings, match="there is no tree in it") as error:
        trees_in("a.root", tmp_path)
    assert "TH1D" in str(error.value)


def test_a_real_schema(tmp_path: Path) -> None:
    events.zmumu_file(tmp_path / "a.root", 20, 1)
    (tree,) = trees_in("a.root", tmp_path)
    shapes = {one.name: one.shape for one in tree.branches}
    assert shapes["Muon_Px"] == "jagged"
    assert shapes["MET_px"] == shapes["triggerIsoMu24"] == "flat"
