"""docs/reference.md is what ``make reference`` makes, and holds every key and component."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fasthep_smk.config.schema import bundled
from fasthep_smk.contrib.measure.ops import SECTIONS, registered

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference.md").read_text()
EXAMPLES = yaml.safe_load((ROOT / "docs/examples.yaml").read_text())


def test_the_reference_is_current() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / ".ci/make-reference")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout == PAGE, "run: make reference"


def keys(part: str) -> list[str]:
    definitions = bundled()["$defs"]
    assert isinstance(definitions, dict)
    return list(definitions[part]["properties"])


@pytest.mark.parametrize("part", ["workflow", "stage", "dataset", "variation", "axis", "execution"])
def test_every_key_is_in_it(part: str) -> None:
    unread = {"matrix_origin", "matrix_values", "profiles"}
    heads = re.findall(r"^ *- (`[^`]+`(?:,\s+`[^`]+`)*)", PAGE, re.MULTILINE)
    missing = [key for key in keys(part) if not any(re.search(rf"[`.]{key}`", h) for h in heads)]
    assert set(missing) <= unread


def headings() -> list[str]:
    """The headings of the page that have an example, or say why not."""
    parts = PAGE.split("\n## ")[1:]
    return [
        heading
        for part in parts
        for section in part.split("\n### ")
        for heading in [section.splitlines()[0]]
        if "```yaml" in section or "No example: " in section
    ]


def test_all_that_is_registered_is_in_it_with_an_example() -> None:
    brief = {"function", "constant", "hook"}
    found = [one for one in registered(None, Path()) if one.kind not in brief]
    shown = headings()
    assert sorted(one.name for one in found) == sorted(
        heading.strip("`") for heading in shown if heading.startswith("`")
    )
    kinds = {kind for kind, _ in SECTIONS.values()}
    assert {one.kind for one in found} == kinds - brief
    assert {"Functions", "Hooks"} <= set(shown)


def test_every_section_has_an_example_and_every_example_a_section() -> None:
    before = PAGE.partition("\n## Operations\n")[0]
    sections = [line.removeprefix("## ") for line in before.splitlines() if line.startswith("## ")]
    assert sections == list(EXAMPLES["Sections"])
    assert set(sections) <= set(headings())
    shown = [entry for group in EXAMPLES.values() if isinstance(group, dict) for entry in group]
    assert [name for name in shown if f"# {name}\n" not in PAGE.replace("`", "")] == []
