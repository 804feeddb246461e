"""What ROOT files hold, looked at by threads or by processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import uproot

from fasthep_smk import root_files
from fasthep_smk.root_files import look_into


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
    monkeypatch.setattr(root_files, "_MANY", many)
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

    monkeypatch.setattr(root_files, "_MANY", 1)
    monkeypatch.setattr(root_files, "ProcessPoolExecutor", refuse)
    assert look_into(["2.root"], ["events"], folder)["2.root"].entries == {"events": 2}
