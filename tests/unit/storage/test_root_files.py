"""What ROOT files hold, looked at by threads or by processes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import uproot

from fasthep_smk.storage import inputs, root_files
from fasthep_smk.storage.inputs import Inputs, missing_branches
from fasthep_smk.storage.root_files import look_into


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(3):
        with uproot.recreate(tmp_path / f"{number}.root") as file:
            file.mktree("events", {"pt": np.float32, "eta": np.float32})
            file["events"].extend({name: np.zeros(number) for name in ("pt", "eta")})
    (tmp_path / "broken.root").write_bytes(b"root, but no more")
    return tmp_path


@pytest.mark.parametrize("many", [2, 1000])
def test_each_file_has_its_facts(folder: Path, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root_files, "MANY", many)
    names = ["2.root", "0.root", "broken.root", "1.root", "9.root"]
    found = look_into(names, ["events"], folder)
    assert list(found) == names
    assert [found[f"{number}.root"].entries for number in range(3)] == [
        {"events": 0},
        {"events": 1},
        {"events": 2},
    ]
    assert found["1.root"].branches == {"events": {"pt", "eta"}}
    assert "is not a readable ROOT file" in str(found["broken.root"].problem)
    assert "does not exist" in str(found["9.root"].problem)


def test_processes_that_cannot_start_are_done_without(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(root_files, "MANY", 1)
    monkeypatch.setattr(root_files, "ProcessPoolExecutor", refuse)
    assert look_into(["2.root"], ["events"], folder)["2.root"].entries == {"events": 2}


def test_in_brief_only_the_entries_are_looked_at(folder: Path) -> None:
    """A name that looks like a pattern is that of one file."""
    (folder / "2.root").rename(folder / "[12]*:{a}.root")
    names = ["[12]*:{a}.root", "0.root", "broken.root", "1.root"]
    found = look_into(names, ["events"], folder, in_brief=names)
    assert found["[12]*:{a}.root"].entries == {"events": 2}
    assert found["1.root"].entries == {"events": 1}
    assert not found["1.root"].branches
    assert "is not a readable ROOT file" in str(found["broken.root"].problem)
    problem = look_into(names, ["event"], folder, in_brief=names)["1.root"].problem
    assert "did you mean 'events'?" in str(problem)


def test_of_very_many_files_some_of_each_dataset_are_looked_at_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "MANY", 4)
    datasets = {name: [f"{name}{i}.root" for i in range(6)] for name in ("data", "dy")}
    for listed in datasets.values():
        for path in listed:
            shutil.copy(folder / "1.root", folder / path)
    every = [path for listed in datasets.values() for path in listed]
    known = Inputs(folder, folder / "known.json")
    facts = known.look(every, ["events"], alike=datasets.values())
    assert all(facts[path].entries == {"events": 1} for path in every)
    whole = ["data0.root", "data3.root", "dy0.root", "dy3.root"]
    assert [path for path in every if facts[path].branches] == whole
    assert not missing_branches(["muon"], facts["data1.root"], "events")
    assert missing_branches(["muon"], facts["data3.root"], "events")

    again = Inputs(folder, folder / "known.json").look(every, ["events"])
    assert again == facts
