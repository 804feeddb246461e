"""Git is asked in less time, and says the same."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from fasthep_smk.flow import upstream
from fasthep_smk.flow.patches.quick_git import quick_git, run


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=Alice", "-c", "user.email=alice@example.org"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def state_of(folder: Path) -> Any:
    return upstream.software_hook().git_state(folder).to_dict()


@pytest.mark.parametrize("how", ["clean", "dirty", "empty", "none", "missing", "odd name"])
def test_the_state_is_the_one_that_fasthep_finds(tmp_path: Path, how: str) -> None:
    folder = tmp_path / ("it's a\nfolder" if how == "odd name" else "folder")
    if how != "missing":
        folder.mkdir()
    if how not in ("none", "missing"):
        git(folder, "init", "-q")
    if how in ("clean", "dirty", "odd name"):
        (folder / "file").write_text("one")
        git(folder, "add", "file")
        git(folder, "commit", "-qm", "one")
    if how == "dirty":
        (folder / "file").write_text("two")
    expected = state_of(folder)
    with quick_git():
        assert state_of(folder) == expected
    assert (expected["revision"] is not None) == (how in ("clean", "dirty", "odd name"))
    assert bool(expected["dirty"]) == (how == "dirty")


def test_without_git_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    expected = state_of(tmp_path)
    with quick_git():
        assert state_of(tmp_path) == expected
    assert "git" in expected["note"]


def test_a_command_that_takes_too_long_is_given_up() -> None:
    found = run(["sleep", "5"], timeout=0.1)
    assert found.timed_out
    assert not found.ok
