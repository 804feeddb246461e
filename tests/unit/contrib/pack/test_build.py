"""Which archives are there already."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from fasthep_smk.contrib.pack import build
from fasthep_smk.contrib.pack.archive import Parts
from fasthep_smk.util import files
from tests.support.packed import small_parts


@dataclass(frozen=True)
class Small:
    """An environment of a few files."""

    kind: str = "packed-venv"
    modules: tuple[str, ...] = ("json",)
    key: str = "0123456789abcdef0123"

    def parts(self) -> Parts:
        return small_parts(self.key)


def planted(path: Path, how: str) -> None:
    """Put another archive in the place of one."""
    if how == "with no note":
        path.with_name(f"{path.name}.sha256").unlink()
    path.write_text("#!/bin/sh\necho planted\n")
    if how == "by another user":
        digest = files.sha256_file(path)
        path.with_name(f"{path.name}.sha256").write_text(f"{digest}  {path.name}\n")
        os.chown(path, 54321, 54321)
    if how == "that others may write to":
        digest = files.sha256_file(path)
        path.with_name(f"{path.name}.sha256").write_text(f"{digest}  {path.name}\n")
        path.chmod(0o777)


@pytest.mark.parametrize(
    "how", ["with no note", "of another content", "by another user", "that others may write to"]
)
def test_an_archive_is_believed_by_owner_mode_and_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "by another user" and os.geteuid() != 0:
        pytest.skip("ONLY ROOT CAN MAKE ANOTHER USER'S FILES: not tested here")
    # The Python of this archive is the one that runs the tests, which is not in it.
    monkeypatch.setattr(build, "check_archive", lambda *_: None)
    first = build.pack(Small(), tmp_path)
    content = first.path.read_bytes()
    assert first.seconds is not None
    assert build.pack(Small(), tmp_path).seconds is None
    planted(first.path, how)
    again = build.pack(Small(), tmp_path)
    assert again.seconds is not None
    assert again.path.read_bytes() == content
    assert again.path.stat().st_uid == os.geteuid()
    check = subprocess.run(["sha256sum", "-c", f"{first.path.name}.sha256"], cwd=tmp_path)
    assert check.returncode == 0


def test_no_link_in_the_place_of_a_lock_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "check_archive", lambda *_: None)
    (tmp_path / "mine.txt").write_text("kept")
    (tmp_path / "archives").mkdir()
    lock = tmp_path / "archives" / f".packed-venv-{Small.key}.lock"
    lock.symlink_to(tmp_path / "mine.txt")
    with pytest.raises(OSError, match="symbolic links"):
        build.pack(Small(), tmp_path / "archives")
    assert (tmp_path / "mine.txt").read_text() == "kept"
