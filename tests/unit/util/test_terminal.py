"""What can be shown on a stream."""

from __future__ import annotations

import io

import pytest

from fasthep_smk.util import terminal


class Stream(io.StringIO):
    def __init__(self, encoding: str = "utf-8", tty: bool = True) -> None:
        super().__init__()
        self._encoding, self._tty = encoding, tty

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

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
    assert terminal.is_terminal(Stream(tty=tty)) == found


@pytest.mark.parametrize(
    ("share", "encoding", "shown"),
    [(0, "utf-8", "────"), (0.5, "UTF-8", "━━──"), (1, "utf-8", "━━━━"), (0.74, "latin-1", "##--")],
)
def test_a_bar_is_in_signs_that_can_be_shown(share: float, encoding: str, shown: str) -> None:
    assert terminal.bar(share, 4, Stream(encoding)) == shown
