"""New files come into a folder together, or none of them does."""

from __future__ import annotations

from pathlib import Path

import pytest

from fasthep_smk.cli.init import write_new
from fasthep_smk.util.errors import UsageError


def listed(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("is_there", [False, True])
def test_after_an_error_nothing_is_left(tmp_path: Path, is_there: bool) -> None:
    folder = tmp_path / "folder"
    if is_there:
        folder.mkdir()
    before = listed(tmp_path)

    def fail(stage: Path) -> None:
        (stage / "a").write_text("new")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_new(folder, ["a"], fail)
    assert listed(tmp_path) == before


def test_what_comes_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    def write(stage: Path) -> None:
        (stage / "a").write_text("new")
        (tmp_path / "a").write_text("mine")

    with pytest.raises(UsageError, match="a already exists: nothing was written"):
        write_new(tmp_path, ["a"], write)
    assert listed(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "mine"
