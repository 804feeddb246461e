"""Several files come into a folder together, or none of them does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fasthep_smk.util.new_files import Occupied, new_files, occupied
from fasthep_smk.util.ownership import close_new_files, is_open


def fill(stage: Path) -> None:
    (stage / "a").write_text("new a")
    (stage / "data").mkdir()
    (stage / "data/b").write_text("new b")


def listed(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("there", [(), ("folder",), ("folder/data",), ("folder/data/mine",)])
def test_they_join_what_is_there(tmp_path: Path, there: tuple[str, ...]) -> None:
    for name in there:
        (tmp_path / name).mkdir(parents=True)
    with new_files(tmp_path / "folder") as stage:
        fill(stage)
    assert {"folder", "folder/a", "folder/data/b", *there} <= set(listed(tmp_path))
    assert not [name for name in listed(tmp_path) if "tmp-" in name]


def test_folders_above_are_made_with_the_usual_mode(tmp_path: Path) -> None:
    (tmp_path / "usual").mkdir()
    with new_files(tmp_path / "one/two") as stage:
        fill(stage)
    modes = {(tmp_path / name).stat().st_mode for name in ("usual", "one", "one/two")}
    assert len(modes) == 1


def test_others_may_not_write_to_a_new_folder(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        close_new_files()  # as each command does
        with new_files(tmp_path / "new") as stage:
            fill(stage)
    finally:
        os.umask(before)
    assert not any(is_open(path) for path in (tmp_path / "new", *(tmp_path / "new").rglob("*")))


@pytest.mark.parametrize("name", ["a", "data", "data/b"])
def test_nothing_is_overwritten(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "folder"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("old")
    before = listed(tmp_path)
    with pytest.raises(Occupied) as error, new_files(folder) as stage:
        fill(stage)
    assert error.value.paths == [folder / name]
    assert listed(tmp_path) == before
    assert (folder / name).read_text() == "old"


def test_a_dangling_link_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("nowhere")
    assert occupied(tmp_path, ["a", "b"]) == [tmp_path / "a"]


@pytest.mark.parametrize("there", [False, True])
def test_after_an_error_nothing_is_left(tmp_path: Path, there: bool) -> None:
    folder = tmp_path / "one/two"
    if there:
        folder.mkdir(parents=True)
    before = listed(tmp_path)
    with pytest.raises(KeyboardInterrupt), new_files(folder) as stage:
        fill(stage)
        raise KeyboardInterrupt
    assert listed(tmp_path) == before


def test_what_was_moved_before_an_error_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def fail_at_b(self: Path, target: Path) -> Path:
        if self.name == "b":
            raise OSError("no")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_at_b)
    with pytest.raises(OSError, match="no"), new_files(tmp_path) as stage:
        fill(stage)
    assert listed(tmp_path) == []
