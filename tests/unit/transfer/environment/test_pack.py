"""Packing takes minutes: how far it is."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path

import pytest

from fasthep_smk.transfer.environment import pack


def test_it_is_told_what_is_done_and_how_much_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack, "_EVERY", 0.05)
    told = io.StringIO()
    (tmp_path / "a.new.rest").write_bytes(bytes(3_000_000))
    with pack._telling(tmp_path / "a.new", told) as now:
        for what in ("packing", "testing"):
            now(what)
            end = time.monotonic() + 10
            while f"    {what}: 3 MB, " not in told.getvalue():
                assert time.monotonic() < end, told.getvalue()
                time.sleep(0.01)
    after = told.getvalue()
    time.sleep(0.2)
    assert told.getvalue() == after
    assert all(re.fullmatch(r"    \w+: 3 MB, \d+ s", line) for line in after.splitlines())
