"""docs/reference.md is what ``make reference`` makes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fasthep_smk.config.schema import bundled

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference.md").read_text()


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


@pytest.mark.parametrize(
    "part", ["workflow", "stage", "dataset", "variation", "axis", "execution-execution"]
)
def test_every_key_is_in_it(part: str) -> None:
    unread = {"matrix_origin", "matrix_values", "profiles"}
    missing = [key for key in keys(part) if f"{key}` |" not in PAGE]
    assert set(missing) <= unread
