"""Tests whose commands start with everything imported see what they would see without that."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from pathlib import Path

import pytest

from tests.support import warm
from tests.support.compare import compare_builds

pytestmark = pytest.mark.integration


def test_results_and_words_are_those_of_a_cold_command(analysis: Path) -> None:
    said = {}
    for build in ("warm", "cold"):
        for _ in range(2):
            done = warm.run("workflow.yaml", "-o", build, cwd=analysis, cold=build == "cold")
            assert done.returncode == 0, done.stderr
        said[build] = done.stdout.replace(build, "build")
    words = {build: re.sub(r"[\d.]+", "N", text) for build, text in said.items()}
    assert words["warm"] == words["cold"]
    assert compare_builds(analysis / "cold", analysis / "warm") == []
    records = [json.loads(path.read_text()) for path in (analysis / "warm").rglob("record.json")]
    assert records
    assert all(record["used"]["warm"] for record in records)


@pytest.mark.parametrize("module", [*warm._MODULES, *warm._STARTED])
def test_what_is_imported_before_is_there(module: str) -> None:
    """A name that is wrong would cost time only, in silence."""
    assert importlib.util.find_spec(module) is not None


def test_it_is_the_same_mistake(analysis: Path) -> None:
    (analysis / "workflow.yaml").write_text("analysis: {stages: [{id: A}]}\n")
    done = [warm.run("workflow.yaml", cwd=analysis, cold=cold) for cold in (False, True)]
    assert done[0].returncode == done[1].returncode == 1
    assert done[0].stderr == done[1].stderr != ""


def test_other_variables_than_at_import_start_cold(analysis: Path, tmp_path: Path) -> None:
    """What was imported has seen this user's home."""
    assert warm._run_warm(["--version"], analysis, None, 60) is not None
    env = {**os.environ, "HOME": str(tmp_path)}
    assert warm._run_warm(["--version"], analysis, env, 60) is None
    assert warm.run("--version", cwd=analysis, env=env).returncode == 0
