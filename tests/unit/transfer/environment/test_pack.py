"""Packing takes minutes: how far it is."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path

import pytest

from fasthep_smk.transfer.environment import pack
from fasthep_smk.transfer.environment.archive import Parts, write_archive
from fasthep_smk.transfer.environment.entries import text_entry
from tests.support.terminal import Terminal


def test_it_is_told_what_is_done_and_how_much_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack, "_EVERY", 0.05)
    told = io.StringIO()
    (tmp_path / "a.new.rest").write_bytes(bytes(3_000_000))
    with pack._telling(tmp_path / "a.new", told) as now:
        for what in ("packing", "testing"):
            if what == "testing":
                now.test()
            end = time.monotonic() + 10
            while f"    {what}: 3 MB, " not in told.getvalue():
                assert time.monotonic() < end, told.getvalue()
                time.sleep(0.01)
    after = told.getvalue()
    time.sleep(0.2)
    assert told.getvalue() == after
    assert all(re.fullmatch(r"    \w+: 3 MB, \d+ s", line) for line in after.splitlines())


@pytest.mark.parametrize(("encoding", "strip"), [("utf-8", "━" * 15 + "─" * 15), ("ascii", "#")])
def test_in_a_terminal_it_has_a_bar_that_goes_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, strip: str
) -> None:
    """The files of an archive are packed by and by."""

    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

    Tty.encoding = encoding  # type: ignore[assignment]
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(pack, "_DRAWN", 0.01)
    told, terminal = Tty(), Terminal()
    with pack._telling(tmp_path / "a.new", told) as now:
        now.reached(0.5)
        end = time.monotonic() + 10
        while f"    packing: {strip}" not in told.getvalue():
            assert time.monotonic() < end, told.getvalue()
            time.sleep(0.01)
    terminal.feed(told.getvalue())
    assert terminal.lines == [""]
    assert terminal.other == []


def test_an_archive_tells_how_far_it_is(tmp_path: Path) -> None:
    reached: list[float] = []
    entries = tuple(text_entry(name, "x") for name in "abcd")
    parts = Parts("packed-venv", "k" * 20, "x86_64", entries, entries)
    write_archive(parts, tmp_path / "a.run", progress=reached.append)
    assert reached == [0, 0.25, 0.5, 0.75]
