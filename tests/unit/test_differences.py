"""Each fault of FAST-HEP that docs/differences.md lists is described for its authors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.faults import entries

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ENTRIES = list(entries())
#: The sections of docs/differences.md whose rows are faults of FAST-HEP.
FAULTS = ("Right where FAST-HEP is wrong", "Refused before anything runs")
#: The sections of docs/upstream whose faults change results.
WRONG = {"Wrong or lost results", "Mistakes that give wrong results"}


def section(page: str, title: str) -> str:
    """Return what stands below a heading of the second level."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    assert found, title
    return found[1]


def rows(table: str) -> list[list[str]]:
    """Return the cells of each row, without the headings."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        for line in lines[2:]
    ]


def linked(text: str) -> set[str]:
    """Return the entries of the page for other packages that a text links to."""
    return set(re.findall(r"\]\(upstream/README\.md#([\w-]+)\)", text))


@pytest.mark.parametrize("title", FAULTS)
def test_each_fault_has_a_text(title: str) -> None:
    listed = rows(section((DOCS / "differences.md").read_text(), title))
    assert len(listed) > 10
    texts = {row[0]: linked(row[-1]) for row in listed}
    assert [what for what, found in texts.items() if not found] == []
    assert set().union(*texts.values()) <= {entry.anchor for entry in ENTRIES}


def test_each_wrong_or_lost_result_is_a_difference() -> None:
    """But for one that shows where references are read from files, as here between jobs."""
    named = linked((DOCS / "differences.md").read_text())
    wrong = [entry for entry in ENTRIES if entry.section in WRONG]
    assert {entry.section for entry in wrong} == WRONG
    missing = [entry.scripts for entry in wrong if entry.anchor not in named]
    assert missing == [("partition-zero-lost.py",)]
