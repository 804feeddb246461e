"""FAST-HEP's compiler is told how many entries files have, as if it had opened them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uproot

from fasthep_smk.flow import upstream
from fasthep_smk.flow.patches.known_entries import EntriesOf, known_entries
from fasthep_smk.storage.inputs import Inputs
from tests.support import events


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, number in {"a": 3, "b": 5}.items():
        events.zmumu_file(tmp_path / f"{name}.root", number, 0, is_data=False)


def count(*names: str, trees: Sequence[str] = ("events",), **params: object) -> Any:
    """Let FAST-HEP count the entries of a dataset with these files."""
    sources = {f"of_{tree}": {"kind": "root_tree", "tree": tree} for tree in trees}
    context = SimpleNamespace(
        plan_context={"datasets": {"dy": {"files": [*names]}}}, normalized={"sources": sources}
    )
    hook = upstream.entries_hook()
    return hook.inspect_root_tree_datasets(context, add_per_file=True, **params)


def inputs() -> Inputs:
    return Inputs(Path.cwd(), Path("inputs.json"))


def never(*_: object) -> None:
    raise AssertionError("a file was opened")


@pytest.mark.parametrize("names", [("a.root", "b.root"), ("a.root",), ("b.root", "b.root"), ()])
def test_the_compiler_learns_the_same(names: tuple[str, ...]) -> None:
    expected = count(*names)
    with known_entries(inputs().entries, quiet=True):
        assert count(*names) == expected


def named(place: str, name: str) -> str:
    """Return how a workflow names a file here, or one that a server has."""
    return name if place == "here" else Path(name).absolute().as_uri()


each_place = pytest.mark.parametrize("place", ["here", "at a server"])


@each_place
def test_a_file_that_is_known_is_not_opened(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [named(place, "a.root"), named(place, "b.root")]
    expected = count(*names)
    with known_entries(inputs().entries, quiet=True):
        count(*names)
    monkeypatch.setattr("uproot.open", never)
    for _ in range(3):  # what is remembered is still known to the call after that
        with known_entries(inputs().entries, quiet=True):
            assert count(*names) == expected


def test_a_name_that_may_be_two_is_read_by_fasthep() -> None:
    """uproot takes what follows ``.root:`` for a folder in the file."""
    with uproot.recreate("c.root") as file:
        file["d/events"] = {"x": [1.0, 2.0]}
    Path("b.root").rename("c.root:d")
    expected = count("c.root:d")
    with known_entries(inputs().entries, quiet=True):
        assert count("c.root:d") == expected


def test_a_uri_is_taken_as_uproot_takes_it() -> None:
    Path("a b.root").write_bytes(Path("a.root").read_bytes())
    Path("a%20b.root").write_bytes(Path("a.root").read_bytes())
    name = f"file://{Path.cwd()}/a%20b.root"
    for number, file in ((3, "a.root"), (5, "b.root")):
        Path(file).rename("a%20b.root")
        with known_entries(inputs().entries, quiet=True):
            assert count(name)["dataset_metadata"]["datasets"]["dy"]["total_entries"] == number


@each_place
def test_a_file_that_was_replaced_is_opened_again(place: str) -> None:
    name = named(place, "a.root")
    with known_entries(inputs().entries, quiet=True):
        count(name)
    Path("b.root").replace("a.root")
    with known_entries(inputs().entries, quiet=True):
        assert count(name)["dataset_metadata"]["datasets"]["dy"]["total_entries"] == 5


@each_place
@pytest.mark.parametrize("how", ["missing", "no ROOT file", "no such tree"])
def test_what_is_wrong_is_said_by_fasthep(how: str, place: str) -> None:
    names = [named(place, "a.root"), named(place, "b.root")]
    with known_entries(inputs().entries, quiet=True):  # it was right before
        count(*names)
    trees = ["events"]
    if how == "missing":
        Path("b.root").unlink()
    elif how == "no ROOT file":
        Path("b.root").write_text("events")
    else:
        trees = ["event"]
    with pytest.raises(RuntimeError) as expected:
        count(*names, trees=trees)
    with (
        known_entries(inputs().entries, quiet=True),
        pytest.raises(RuntimeError) as found,
    ):
        count(*names, trees=trees)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("quiet", [True, False])
def test_it_is_not_warned_of_files_that_are_not_opened(quiet: bool) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with known_entries(inputs().entries, quiet=quiet):
            count("a.root", "b.root", max_files_warn=1)
    assert ["2 files in 1 datasets will be opened" in str(one.message) for one in said] == (
        [] if quiet else [True]
    )


def test_afterwards_the_compiler_opens_files_itself() -> None:
    def wrong(*_: object) -> Mapping[str, Mapping[str, int]]:
        return {"a.root": {"events": 77}}

    entries: EntriesOf = wrong
    expected = count("a.root")
    with known_entries(entries, quiet=True):
        assert count("a.root") != expected
    assert count("a.root") == expected
