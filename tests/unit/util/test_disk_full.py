"""A full disk is known by what is raised and printed, and said with folder and amounts."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fasthep_smk.util import disk_full


def full(path: str | None = None) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def wrapped(error: BaseException) -> BaseException:
    """What an operation's library makes of an error."""
    try:
        try:
            raise error
        except OSError as cause:
            raise RuntimeError("the plot could not be saved") from cause
    except RuntimeError as outer:
        return outer


@pytest.mark.parametrize(
    "error",
    [
        full(),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        wrapped(full()),
        RuntimeError("[Errno 28] No space left on device"),
    ],
)
def test_a_full_disk_is_known_by_its_error(error: BaseException) -> None:
    assert disk_full.shown(error)


@pytest.mark.parametrize(
    "error",
    [
        None,
        ValueError("no"),
        PermissionError(errno.EACCES, "no"),
        wrapped(OSError(errno.EIO, "io")),
        FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"),
    ],
)
def test_other_errors_are_none(error: BaseException | None) -> None:
    assert not disk_full.shown(error)


def test_errors_that_lead_to_each_other_have_an_end() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__context__, two.__context__ = two, one
    assert not disk_full.shown(one)


def test_what_is_raised_on_a_full_disk_becomes_a_message(tmp_path: Path) -> None:
    with pytest.raises(disk_full.DiskFull) as caught, disk_full.saying(tmp_path):
        raise full()
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{tmp_path}: the disk is full"
    assert " are free now" in lines[1]
    assert "make space there" in lines[2]
    with pytest.raises(PermissionError), disk_full.saying(tmp_path):
        raise PermissionError(errno.EACCES, "no")


def test_a_quota_is_called_so(tmp_path: Path) -> None:
    error = OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
    assert disk_full.finding(tmp_path, error).problem == "the quota is used up"


def test_the_folder_is_the_one_of_the_error(tmp_path: Path) -> None:
    build, other = tmp_path / "build", tmp_path / "other"
    build.mkdir()
    other.mkdir()
    for path, folder in ((build / "smk" / "x", build), (other / "x", other), ("relative", build)):
        assert disk_full.finding(build, full(str(path))).file == str(folder)


def test_a_disk_with_space_is_not_full(tmp_path: Path) -> None:
    assert not disk_full.is_full(tmp_path)
    assert not disk_full.is_full(tmp_path / "missing")
    assert not list(tmp_path.iterdir())
