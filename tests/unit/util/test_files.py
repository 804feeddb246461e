"""A file is absent, the old one or complete; its checksum says what is in it."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path

import pytest

from fasthep_smk.util.files import (
    Altered,
    atomic_path,
    digest_of,
    exact_json,
    seal,
    sha256_file,
    unseal,
    write_text,
)


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "file.txt"
    with atomic_path(target) as temporary:
        temporary.write_text("half")
        assert not target.exists()
        assert temporary.parent == target.parent
        temporary.write_text("whole")
    assert target.read_text() == "whole"
    assert [path.name for path in target.parent.iterdir()] == ["file.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_after_an_error_the_old_file_is_there_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    target = tmp_path / "file.txt"
    target.write_text("old")
    with pytest.raises(error), atomic_path(target) as temporary:
        temporary.write_text("new, but")
        raise error
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]


def test_after_an_error_without_an_old_file_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no space"), atomic_path(tmp_path / "file.txt"):
        raise OSError("no space")
    assert list(tmp_path.iterdir()) == []


def test_an_atomic_file_is_shared_like_any_other(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with atomic_path(tmp_path / "file.txt") as temporary:
            temporary.write_text("x")
        assert stat.S_IMODE((tmp_path / "file.txt").stat().st_mode) == 0o640
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def test_the_mode_of_an_atomic_file_changes_nothing_for_other_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs are sent by several threads: the umask is one for all of them."""

    def changed(mask: int) -> int:
        raise AssertionError(f"the umask was set to {mask:o}")

    monkeypatch.setattr(os, "umask", changed)
    with atomic_path(tmp_path / "file.txt") as temporary:
        temporary.write_text("x")
    assert (tmp_path / "file.txt").read_text() == "x"


def test_an_atomic_file_replaces_a_link_and_not_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "theirs.txt").write_text("theirs")
    (tmp_path / "file.txt").symlink_to("theirs.txt")
    with atomic_path(tmp_path / "file.txt") as temporary:
        temporary.write_text("ours")
    assert (tmp_path / "file.txt").read_text() == "ours"
    assert (tmp_path / "theirs.txt").read_text() == "theirs"


def test_writing_the_same_text_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    assert write_text(path, "eins\n")
    os.utime(path, ns=(1, 1))
    assert not write_text(path, "eins\n")
    assert path.stat().st_mtime_ns == 1
    assert write_text(path, "zwei\n")
    assert path.stat().st_mtime_ns != 1


def test_text_is_written_as_it_is(tmp_path: Path) -> None:
    write_text(tmp_path / "file.txt", "ü\r\n🎉")
    assert (tmp_path / "file.txt").read_bytes() == "ü\r\n🎉".encode()


def test_a_script_can_be_executed(tmp_path: Path) -> None:
    write_text(tmp_path / "script", "#!/bin/sh\n", executable=True)
    assert os.access(tmp_path / "script", os.X_OK)


def test_the_checksum_is_sha256_of_the_content(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5000
    (tmp_path / "file").write_bytes(content)
    assert sha256_file(tmp_path / "file") == hashlib.sha256(content).hexdigest()


def test_the_order_of_keys_counts_at_any_depth() -> None:
    assert exact_json({"b": 1, "a": [1, 2]}) == '{"b":1,"a":[1,2]}'
    # Keys that are no texts are pairs in a list.
    assert exact_json([{2: "x", 1: {4: 5}}]) != exact_json([{1: {4: 5}, 2: "x"}])
    assert exact_json([{2: "x", 1: {4: 5, 3: 6}}]) != exact_json([{2: "x", 1: {3: 6, 4: 5}}])


def test_a_digest_depends_on_all_of_the_content() -> None:
    assert digest_of({"a": 1, "b": 2}) == digest_of({"a": 1, "b": 2})
    assert digest_of({"a": 1, "b": 2}) != digest_of({"b": 2, "a": 1})
    # Sets have no order.
    assert digest_of({"a", "b", "c"}) == digest_of({"c", "b", "a"})
    assert digest_of([1, 2]) != digest_of([2, 1])
    assert digest_of("1") != digest_of(1) != digest_of(1.0)
    assert digest_of({"a": 1}) != digest_of({"a": "1"})
    assert len(digest_of("\udcff")) == 32


@pytest.mark.parametrize("number", [1e308, float("inf")])  # JSON does not know the second
@pytest.mark.parametrize("indent", [None, 1])
def test_a_sealed_text_is_json_and_comes_back(indent: int | None, number: float) -> None:
    content = {"a": [1, 2.5, None, {"b": "ü 🎉"}], "number": number}
    text = seal(content, indent=indent)
    assert unseal(text.encode()) == content
    assert json.loads(text) == {"checksum": json.loads(text)["checksum"], **content}


@pytest.mark.parametrize("damaged", [b"", b"{}\n", b"\x00\xff", b"null"])
def test_what_is_not_sealed_is_refused(damaged: bytes) -> None:
    with pytest.raises(Altered, match="does not begin with a checksum"):
        unseal(damaged)


def test_a_sealed_text_may_not_change() -> None:
    text = seal({"a": 1}).encode()
    for altered in (text[:-1], text + b" ", text.replace(b"1\n", b"2\n")):
        with pytest.raises(Altered, match="checksum differs"):
            unseal(altered)


def test_a_script_that_lost_its_mode_gets_it_again(tmp_path: Path) -> None:
    path = tmp_path / "script"
    write_text(path, "#!/bin/sh\n")
    assert not write_text(path, "#!/bin/sh\n", executable=True)
    assert os.access(path, os.X_OK)
