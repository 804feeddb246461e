"""What is said of files that are not as they were written."""

from __future__ import annotations

from pathlib import Path

import pytest

from fasthep_smk.storage import damage
from fasthep_smk.util import files

TEXT = b"0123456789"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.root"
    path.write_bytes(TEXT)
    return path


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Path.touch, None),
        (Path.unlink, "is gone"),
        (lambda path: path.write_bytes(b""), "is empty (0 of 10 bytes)"),
        (lambda path: path.write_bytes(TEXT[:3]), "is truncated (3 of 10 bytes)"),
        (lambda path: path.write_bytes(TEXT * 2), "is too long (20 instead of 10 bytes)"),
        (make_folder, "is a folder"),
        (link_to_itself, "cannot be read (Too many levels of symbolic links)"),
    ],
)
def test_what_is_seen_without_reading(file: Path, change, said: str | None) -> None:
    known = files.described(file)
    change(file)
    assert damage.difference(file, known) == said
    assert damage.difference(file, known, content=True) == said


def test_another_content_of_the_same_size_is_seen_by_who_reads_it(file: Path) -> None:
    known = files.described(file)
    file.write_bytes(TEXT[::-1])
    assert damage.difference(file, known) is None
    assert "has changed" in str(damage.difference(file, known, content=True))


def test_a_file_above_which_there_is_no_folder_is_gone(file: Path) -> None:
    known = files.described(file)
    assert damage.difference(file / "plot.png", known) == "is gone"


def record(path: Path, content: bytes, *, ended: float) -> dict:
    """The record of a job that left this content."""
    path.write_bytes(content)
    return {"results": {path.name: files.described(path)}, "ended": ended}


def test_a_result_of_several_jobs_is_right_as_any_of_them_left_it(file: Path) -> None:
    build = file.parent
    records = {
        "first": record(file, b"a report", ended=1),
        "second": record(file, b"a longer report", ended=2),
    }
    assert damage.of_results(build, records) == {}
    file.write_bytes(b"a report")
    assert damage.of_results(build, records) == {}
    file.write_bytes(b"")
    found = damage.of_results(build, records)
    assert found == {"second": {file.name: "is empty (0 of 15 bytes)"}}  # whose file it was
    other = record(file, b"of another variation", ended=3)
    assert damage.of_results(build, records, others=lambda: [other]) == {}


def test_what_is_wrong_with_a_job_is_said_in_short() -> None:
    assert damage.said({"a": "is gone"}) == "its result a is gone"
    assert damage.said({"a": "is gone", "b": "is empty", "c": "is empty"}) == (
        "its result a is gone, and 2 more of its results"
    )
