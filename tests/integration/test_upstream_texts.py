"""The texts of docs/upstream: what they say of other packages is still so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.forms import LONG

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "upstream"
TEXTS = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")

#: ``Seen with fasthep-flow 2026.10.1. Where: `hepflow/api.py` …``, on one line or several.
SEEN = re.compile(r"Seen with ([\w-]+ \d[\w.]*(, |\. ))+Where: `[^`]+\.py`, `[^`]+` \(line \d+\)")


def blocks(path: Path, kind: str) -> list[str]:
    """Return the fenced blocks of one kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)


def own_modules(path: Path) -> list[str]:
    """Return the modules of ours that the last paragraph of a text names."""
    return re.findall(r"`(fasthep_smk/[^`]*)`", path.read_text().rstrip().rpartition("\n\n")[2])


REPRODUCED = [
    pytest.param(path, id=path.stem)
    for path in TEXTS
    if blocks(path, "python") and blocks(path, "text")
]


@LONG
@pytest.mark.parametrize("path", REPRODUCED)
def test_the_script_prints_what_the_text_says(path: Path, tmp_path: Path) -> None:
    (script,), (said,) = blocks(path, "python"), blocks(path, "text")
    (tmp_path / "script.py").write_text(script)
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    missing = [line for line in said.splitlines() if line not in done.stdout.splitlines()]
    assert not missing, (
        f"{path.name} says that its script prints {missing}, and it prints\n{done.stdout[-2000:]}"
        f"{done.stderr[-2000:]}\nIf that is now right, there is a release with the fix: "
        f"{', '.join(own_modules(path))} may no longer need to work around it."
    )


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_each_text_is_complete(path: Path) -> None:
    title, _, rest = path.read_text().partition("\n")
    assert title.startswith("# ")
    assert SEEN.match(" ".join(rest.split()))
    assert len(blocks(path, "python")) == 1
    assert len(blocks(path, "text")) <= 1
    modules = own_modules(path)
    assert modules
    assert not [module for module in modules if not (ROOT / module).is_file()]
    assert max(map(len, path.read_text().splitlines())) <= 110
