"""Each fault of FAST-HEP that docs/differences.md lists is described for its authors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TEXTS = {path.name for path in (DOCS / "upstream").glob("*.md")} - {"README.md"}
#: The sections of docs/differences.md whose rows are faults of FAST-HEP.
FAULTS = ("Right where FAST-HEP is wrong", "Refused before anything runs")
#: The rows without a text: what FAST-HEP's Dask backend does, which is a package of its own.
WITHOUT = {"a stage that asks for more than its pool has, a pool larger than the machine"}


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


def linked(text: str, folder: str) -> list[str]:
    return re.findall(rf"\]\({folder}([\w-]+\.md)\)", text)


@pytest.mark.parametrize("title", FAULTS)
def test_each_fault_has_a_text(title: str) -> None:
    listed = rows(section((DOCS / "differences.md").read_text(), title))
    assert len(listed) > 10
    texts = {row[0]: linked(row[-1], "upstream/") for row in listed}
    assert {what for what, found in texts.items() if not found} <= WITHOUT
    assert {name for found in texts.values() for name in found} <= TEXTS


def test_each_text_has_one_row_in_the_table_of_texts() -> None:
    index = (DOCS / "upstream" / "README.md").read_text()
    found = [linked(row[0], "") for table in index.split("\n## ")[1:] for row in rows(table)]
    assert sorted(name for names in found for name in names) == sorted(TEXTS)


def test_each_wrong_or_lost_result_is_a_difference() -> None:
    """But for one of a class that only fasthep-smk and FAST-HEP's Dask package use."""
    index = (DOCS / "upstream" / "README.md").read_text()
    wrong = {
        name for row in rows(section(index, "Wrong or lost results")) for name in linked(row[0], "")
    }
    named = linked((DOCS / "differences.md").read_text(), "upstream/")
    assert wrong - set(named) == {"partition-zero-lost.md"}
