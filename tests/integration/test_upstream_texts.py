"""The faults of other packages in docs/upstream: what their scripts say is still so."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.faults import FOLDER, PAGE, Entry, entries
from tests.support.forms import LONG

pytestmark = pytest.mark.integration

ROOT = FOLDER.parents[1]
ENTRIES = list(entries())

SCRIPTS = {script: entry for entry in ENTRIES for script in entry.scripts}


def head(script: str) -> str:
    """Return what a script says of itself."""
    return ast.get_docstring(ast.parse((FOLDER / script).read_text())) or ""


def printed(script: str) -> list[str]:
    """Return the lines that a script says it prints; none if they differ from run to run."""
    found = re.match(r"Prints:\n\n((?: {4}.*\n)+)\nExpected: ", head(script))
    return textwrap.dedent(found[1]).splitlines() if found else []


@LONG
@pytest.mark.parametrize("script", [one for one in SCRIPTS if printed(one)])
def test_the_script_prints_what_it_says(script: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text((FOLDER / script).read_text())
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    missing = [line for line in printed(script) if line not in done.stdout.splitlines()]
    assert not missing, (
        f"{script} says that it prints {missing}, and it prints\n{done.stdout[-2000:]}"
        f"{done.stderr[-2000:]}\nIf that is now right, there is a release with the fix: "
        f"{', '.join(SCRIPTS[script].modules)} may no longer need to work around it."
    )


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_script_says_what_it_prints_and_what_was_expected(script: str) -> None:
    assert "\nExpected: " in head(script)
    assert bool(printed(script)) == head(script).startswith("Prints:")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.anchor)
def test_each_entry_names_a_workaround(entry: Entry) -> None:
    assert entry.modules
    assert not [module for module in entry.modules if not (ROOT / module).is_file()]


def test_each_script_has_one_entry() -> None:
    scripts = [path.name for path in FOLDER.glob("*.py")]
    assert sorted(script for entry in ENTRIES for script in entry.scripts) == sorted(scripts)
    assert len({entry.anchor for entry in ENTRIES}) == len(ENTRIES)


def test_lines_of_the_page_are_short() -> None:
    lines = PAGE.read_text().splitlines()
    assert max(len(line) for line in lines if not line.startswith("|")) <= 110
