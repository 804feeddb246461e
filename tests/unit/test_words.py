"""Pages and messages have none of these phrases, over which readers stumble."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = ("*.md", "docs/*.md", "docs/upstream/README.md", "workflow/**/*.md", "tests/**/*.md")
PAGES = {page for place in PLACES for page in ROOT.glob(place)} - {ROOT / "CHANGELOG.md"}
#: What must not be written, as a regular expression, and what to write instead.
WORDS = {
    r"as ever": "as before, still",
    r"(?:at that|as such)[.;]": "too; or leave it out",
    r"but for(?! example)": "except for",
    r"cold (?:jobs?|starts?|Pythons?)|starts? cold": "in a Python of its own",
    r"held against": "compared with",
    r"in vain": "not used; without effect",
    r"is no (?:command|file|mapping|name|number|option|text|value)": "is not a …",
    r"lacked": "ran out of, had no",
    r"names? nothing": "does not exist",
    r"of it outside": "outside of it",
    r"of its own making": "that it made",
    r"tells of": "says",
    r"the ends": "the final jobs",
    r"(?:to|can(?:not)?) be had": "is not available",
    r"(?:that|which) is said": "the run says so",
    r"what bites": "name the problem",
    r"who asks": "the caller",
    r"without a word": "silently",
    r"worth a (?:warning|word)": "gives a warning",
}
#: The same, for pages only.
PAGE_WORDS = {
    r"all the same": "nevertheless",
    r"in the place of": "instead of",
    r"(?<!\| )parcels?(?! \|)": "archive (of a job's files); a parcel is a word of the code",
}


def found(text: str, words: dict[str, str]) -> list[str]:
    """Return each phrase in a text outside code, with the words around it, and the advice."""
    text = re.sub(r"^ *```.*?^ *```|`[^`\n]*`", "…", text, flags=re.MULTILINE | re.DOTALL)
    text = " ".join(text.split())
    return [
        f"{text[max(0, hit.start() - 30) : hit.end() + 30]!r}: {advice}"
        for phrase, advice in words.items()
        for hit in re.finditer(rf"\b(?<!there )(?:{phrase})(?!\w)", text, re.IGNORECASE)
    ]


@pytest.mark.parametrize("page", sorted(PAGES), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page(page: Path) -> None:
    assert found(page.read_text(), WORDS | PAGE_WORDS) == []


def test_messages() -> None:
    texts = runpy.run_path(str(ROOT / ".ci/messages"))["texts"]
    for path in sorted((ROOT / "fasthep_smk").rglob("*.py")):
        for line, text in texts(ast.parse(path.read_text())):
            assert found(text, WORDS) == [], f"{path.relative_to(ROOT)}:{line}"


def test_a_phrase_is_noticed_across_lines_and_not_in_code() -> None:
    assert len(found("All\nbut\nfor these, in vain.", WORDS)) == 2
    assert found("`in vain`, but for example\n```text\nthe ends\n```", WORDS) == []
