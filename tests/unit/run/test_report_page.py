"""Who writes the page of a run: what goes wrong with it is said, and nothing more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fasthep_smk.run import lock, report_page
from fasthep_smk.run.report_page import Page
from fasthep_smk.storage import layout
from tests.support import tables

NOT_WRITTEN = "fasthep-smk: warning: report.html was not written: "


@pytest.fixture
def build(tmp_path: Path) -> Path:
    (tmp_path / layout.TASKS).mkdir(parents=True)
    (tmp_path / layout.table("r")).write_text(tables.table().to_text())
    return tmp_path


@pytest.fixture
def page(build: Path) -> Iterator[Page]:
    page = Page(build)
    yield page
    page.close()


def process_of(page: Page) -> subprocess.Popen[bytes]:
    page.start()
    assert page._process is not None
    return page._process


def is_there(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process is there, if only for its parent to ask how it has ended."""
    return Path(f"/proc/{process.pid}").exists()


def test_it_is_written_when_it_is_asked_for(
    build: Path, page: Page, capfd: pytest.CaptureFixture[str]
) -> None:
    process = process_of(page)
    page.start()  # it is there
    assert page._process is process
    page.write()
    assert (build / layout.REPORT).read_text().startswith("<!doctype html>")
    assert not is_there(process)
    assert capfd.readouterr() == ("", "")


def test_a_page_that_cannot_be_written_is_a_warning(
    build: Path, page: Page, capsys: pytest.CaptureFixture[str]
) -> None:
    (build / layout.REPORT / "something").mkdir(parents=True)
    page.write()
    said = capsys.readouterr().err
    assert said.startswith(f"{NOT_WRITTEN}IsADirectoryError")
    assert said.count("\n") == 1


def test_a_page_is_outdated_when_the_tasks_are_newer(build: Path, page: Page) -> None:
    assert report_page.is_outdated(build)
    page.write()
    assert not report_page.is_outdated(build)
    later = (build / layout.REPORT).stat().st_mtime + 1
    os.utime(build / layout.table("r"), (later, later))
    assert report_page.is_outdated(build)


def test_a_process_that_was_killed_is_a_warning(
    build: Path, page: Page, capsys: pytest.CaptureFixture[str]
) -> None:
    process = process_of(page)
    os.kill(process.pid, signal.SIGKILL)
    page.write()
    ended = "its process has ended with signal 9 (killed)\n"
    assert capsys.readouterr().err == NOT_WRITTEN + ended
    assert not is_there(process)
    assert not (build / layout.REPORT).exists()


def test_a_process_that_does_not_answer_is_a_warning(
    page: Page, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report_page, "_LONGEST", 1.0)
    process = process_of(page)
    os.kill(process.pid, signal.SIGSTOP)
    page.write()
    assert capsys.readouterr().err == NOT_WRITTEN + "its process has not ended after 1 s\n"
    page.close()
    assert not is_there(process)


def test_an_error_of_the_process_is_a_warning(
    build: Path,
    page: Page,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (build / "hist.py").write_text("raise RuntimeError('of another one')\n")
    monkeypatch.chdir(build)
    page.write()  # what lies in the current folder shadows nothing
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("PYTHONPATH", str(build))
    page.write()
    ended = "its process has ended with status 1: RuntimeError: of another one\n"
    assert capsys.readouterr().err == NOT_WRITTEN + ended


def test_a_process_that_cannot_be_started_is_a_warning(
    build: Path,
    page: Page,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "executable", str(build / "python"))
    page.write()
    assert capsys.readouterr().err.startswith(f"{NOT_WRITTEN}FileNotFoundError: ")


def test_without_a_word_nothing_is_written(build: Path, page: Page) -> None:
    process = process_of(page)
    page.close()
    assert process.returncode == 0
    assert not is_there(process)
    assert not (build / layout.REPORT).exists()
    page.close()


def test_the_lock_of_the_run_is_not_held(build: Path, page: Page) -> None:
    with lock.hold(build):
        process = process_of(page)
        held = [path.readlink() for path in Path(f"/proc/{process.pid}/fd").iterdir()]
        assert build / layout.LOCK not in held
    with lock.hold(build):
        pass
