"""The page at the end of a run: what goes wrong with it is said, and nothing more."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fasthep_smk.contrib.report import page
from fasthep_smk.run import report_page
from fasthep_smk.storage import layout
from tests.support import tables


@pytest.fixture
def build(tmp_path: Path) -> Path:
    (tmp_path / layout.TASKS).mkdir(parents=True)
    (tmp_path / layout.table("r")).write_text(tables.table().to_text())
    return tmp_path


def test_a_page_that_cannot_be_written_is_a_warning(
    build: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (build / layout.REPORT / "something").mkdir(parents=True)
    report_page.write_page(build)
    said = capsys.readouterr().err
    assert said.startswith("fasthep-smk: warning: report.html was not written: IsADirectoryError")
    assert said.count("\n") == 1


def test_a_page_is_outdated_when_the_tasks_are_newer(build: Path) -> None:
    assert report_page.is_outdated(build)
    report_page.write_page(build)
    assert not report_page.is_outdated(build)
    later = (build / layout.REPORT).stat().st_mtime + 1
    os.utime(build / layout.table("r"), (later, later))
    assert report_page.is_outdated(build)


def test_it_is_renewed_while_a_run_goes_on(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_page, "_FIRST", 0.05)
    monkeypatch.setattr(page, "pause", lambda _took: 0.05)
    with report_page._renewing(build):
        until(lambda: (build / layout.REPORT).exists())
        (build / layout.REPORT).unlink()
        until(lambda: (build / layout.REPORT).exists())
    (build / layout.REPORT).unlink()
    time.sleep(0.2)
    assert not (build / layout.REPORT).exists()  # it has ended with the run


def test_a_page_that_cannot_be_renewed_is_not_told_before_the_end(
    build: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report_page, "_FIRST", 0.01)
    tried: list[Path] = []

    def fail(path: Path, **_: float) -> None:
        tried.append(path)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(page, "write", fail)
    with report_page._renewing(build):
        until(lambda: tried)
    assert capsys.readouterr() == ("", "")


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)
