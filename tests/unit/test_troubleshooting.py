"""The headings of the page on messages are messages that the program has, word by word."""

from __future__ import annotations

import ast
import re
import runpy
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/troubleshooting.md").read_text()
HEADINGS = re.findall(r"^### (.+)$", PAGE, re.MULTILINE)
QUOTED = [quoted for heading in HEADINGS for quoted in re.findall(r"`([^`]+)`", heading)]


@cache
def messages() -> list[str]:
    """Return all texts that a user may read, with `…` for what is put in."""
    texts = runpy.run_path(str(ROOT / ".ci/messages"))["texts"]
    found = []
    for path in (ROOT / "fasthep_smk").rglob("*.py"):
        found += [text for _, text in texts(ast.parse(path.read_text()), words=2)]
    return [shortened(text) for text in found]


def shortened(text: str) -> str:
    """Return a text with `…` for each value, whatever makes it."""
    while (shorter := re.sub(r"\{[^{}]*\}", "…", text)) != text:
        text = shorter
    return text


def is_there(quoted: str) -> bool:
    return any(quoted in text for text in messages())


@pytest.mark.parametrize("quoted", QUOTED)
def test_a_message_is_one_of_the_program(quoted: str) -> None:
    assert is_there(quoted), "reworded? see: make messages"


def test_headings_are_nothing_but_messages() -> None:
    assert HEADINGS
    assert [one for one in HEADINGS if re.sub(r"`[^`]+`", "", one).strip(", ")] == []


@pytest.mark.parametrize(
    "other", ["the workflow file is not there", "unknown keys", "tree … has no branches …"]
)
def test_another_wording_is_noticed(other: str) -> None:
    assert not is_there(other)
