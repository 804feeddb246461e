"""Temporary folders: whose stay, and whose go."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fasthep_smk.util.scratch import Scratch, scratch

#: Makes a folder, says which, and is killed.
KILLED = """
import os, signal
from fasthep_smk.util.scratch import Scratch
print(Scratch().path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield tmp_path
    tempfile.tempdir = None


def left() -> Path:
    """A folder whose owner was killed."""
    done = subprocess.run([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True)
    folder = Path(done.stdout.strip())
    assert folder.is_dir()
    return folder


def test_a_folder_is_private_and_goes_with_its_block(temporary: Path) -> None:
    with scratch("job-") as folder:
        assert folder.parent == temporary
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "file").touch()
    assert not list(temporary.iterdir())


def test_that_of_a_dead_owner_goes_when_the_next_is_made() -> None:
    folder = left()
    (folder / "deep" / "er").mkdir(parents=True)
    with scratch():
        assert not folder.exists()


def test_that_of_a_living_owner_stays() -> None:
    with scratch() as mine, scratch() as other:
        assert mine.is_dir()
        assert other.is_dir()


def test_it_stays_as_long_as_a_process_that_shares_it_lives() -> None:
    made = Scratch()
    with subprocess.Popen(["sleep", "60"], pass_fds=(made.owner,)) as sharer:
        os.close(made.owner)
        with scratch():
            assert made.path.is_dir()
        sharer.kill()
        sharer.wait()
        with scratch():
            assert not made.path.exists()


def test_folders_that_are_not_known_to_be_left_stay(temporary: Path) -> None:
    other_host = left()
    (other_host / ".fasthep-smk-owner").write_text(f"not-{socket.gethostname()}")
    archive = temporary / f"fasthep-smk-{os.getuid()}"  # of packed environments
    archive.mkdir()
    elsewhere = left().rename(temporary / "elsewhere")
    (temporary / "fasthep-smk-link").symlink_to(elsewhere)
    with scratch():
        assert other_host.is_dir()
        assert archive.is_dir()
        assert elsewhere.is_dir()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make another user's folder")
def test_another_users_folder_stays() -> None:
    folder = left()
    os.chown(folder, 12345, -1)
    with scratch():
        assert folder.is_dir()


def test_a_sockets_folder_has_a_short_path(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = Scratch(socket_name="worker")
    assert short.path.parent == temporary
    short.remove()
    long = temporary / ("x" * 120)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    tempfile.tempdir = None
    other = Scratch(socket_name="worker")
    try:
        assert other.path.stat().st_mode & 0o777 == 0o700
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(other.path / "worker"))
    finally:
        other.remove()
    with scratch() as folder:
        assert folder.parent == long
