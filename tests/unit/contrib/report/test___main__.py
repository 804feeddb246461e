"""The page of a run that goes on: it is renewed, and why jobs wait is noted."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fasthep_smk.contrib.report import __main__ as writer
from fasthep_smk.contrib.report import page
from fasthep_smk.storage import layout, queue
from tests.support import tables
from tests.support.processes import until


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / layout.TASKS).mkdir(parents=True)
    (tmp_path / layout.table("r")).write_text(tables.table().to_text())
    monkeypatch.setattr(writer, "_FIRST", 0.05)
    monkeypatch.setattr(page, "pause", lambda _took: 0.05)
    return tmp_path


@contextmanager
def renewing(
    build: Path, monkeypatch: pytest.MonkeyPatch, word: bytes = b"."
) -> Iterator[list[bool]]:
    """Renew the page of a folder until the block ends: then it is told the word."""
    read, write = os.pipe()
    monkeypatch.setattr(writer, "_STDIN", read)
    told: list[bool] = []
    thread = threading.Thread(target=lambda: told.append(writer.renew(build)))
    thread.start()
    try:
        yield told
    finally:
        os.write(write, word)
        os.close(write)
        thread.join()
        os.close(read)


@pytest.mark.parametrize("word", [b".", b""])
def test_it_is_renewed_until_a_word_comes(
    build: Path, monkeypatch: pytest.MonkeyPatch, word: bytes
) -> None:
    with renewing(build, monkeypatch, word) as told:
        until(lambda: (build / layout.REPORT).exists(), 10)
        (build / layout.REPORT).unlink()
        until(lambda: (build / layout.REPORT).exists(), 10)
    assert told == [bool(word)]


def test_a_page_that_cannot_be_renewed_is_not_told_before_the_end(
    build: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    tried: list[Path] = []

    def fail(path: Path, **_: float) -> None:
        tried.append(path)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(page, "write", fail)
    with renewing(build, monkeypatch):
        until(lambda: len(tried) > 1, 10)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("system", ["slurm", "local"])
def test_why_jobs_wait_is_noted_by_the_pool_of_their_first_attempt(
    build: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    noted: list[dict[str, str]] = []
    monkeypatch.setattr(queue, "note", lambda _build, pools: noted.append(pools))
    asked = {"system": system, "rules": {"r": [{"pool": "gpu"}, {"pool": "default"}]}}
    (build / layout.REQUESTS).write_text(json.dumps(asked))
    with renewing(build, monkeypatch):
        until(lambda: (build / layout.REPORT).exists(), 10)
    assert noted == ([{"r": "gpu"}] if system == "slurm" else [])
