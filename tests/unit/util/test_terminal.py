"""Which streams are terminals."""

from __future__ import annotations

import io

import pytest

from fasthep_smk.util import terminal


class Stream(io.StringIO):
    def __init__(self, tty: bool) -> None:
        super().__init__()
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty


@pytest.mark.parametrize(
    ("tty", "term", "found"),
    [(True, "xterm", True), (True, "dumb", False), (True, "", False), (False, "xterm", False)],
)
def test_lines_are_written_over_in_terminals_that_can(
    monkeypatch: pytest.MonkeyPatch, tty: bool, term: str, found: bool
) -> None:
    monkeypatch.setenv("TERM", term)
    assert terminal.is_terminal(Stream(tty)) == found
