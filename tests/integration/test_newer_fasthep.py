"""A made-up release of FAST-HEP: it runs with a note, or is refused with what has changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import hepflow
import pytest

from tests.support.project import make_project

pytestmark = pytest.mark.integration
CHANGES = {
    "signature": (
        "runtime/engine.py",
        "def execute_plan_partition(\n    plan: ExecutionPlan,",
        "def execute_plan_partition(\n    execution_plan: ExecutionPlan,",
        "hepflow.runtime.engine.execute_plan_partition no longer takes 'plan'",
    ),
    "name": (
        "runtime/materialize.py",
        "def materialize_final_products(",
        "def materialize_all_products(",
        "hepflow.runtime.materialize.materialize_final_products is gone",
    ),
}


def december(folder: Path) -> Path:
    """A copy of the installed hepflow that says it is of December, to be put first."""
    package = folder / "hepflow"
    shutil.copytree(Path(hepflow.__file__).parent, package)
    old = metadata.distribution("fasthep-flow")
    about = folder / "fasthep_flow-2026.12.0.dist-info"
    about.mkdir()
    text = old.read_text("METADATA") or ""
    (about / "METADATA").write_text(text.replace(f"Version: {old.version}", "Version: 2026.12.0"))
    return package


def run(folder: Path, first: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(first), "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, "-m", "fasthep_smk", "workflow.yaml"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_release_without_a_change_runs_with_a_note(tmp_path: Path) -> None:
    december(tmp_path / "new")
    folder = make_project(tmp_path / "project").folder
    notes = []
    for _ in range(2):
        done = run(folder, tmp_path / "new")
        assert done.returncode == 0, done.stderr
        notes.append([line for line in done.stderr.splitlines() if "was not tested" in line])
    assert notes == [
        [
            "fasthep-smk: warning: fasthep-flow 2026.12.0 was not tested with this fasthep-smk "
            "(newest: 2026.10.1); what is used of it has not changed"
        ],
        [],
    ]


@pytest.mark.parametrize("change", CHANGES)
def test_a_release_with_a_change_is_refused_with_what_has_changed(
    change: str, tmp_path: Path
) -> None:
    path, old, new, message = CHANGES[change]
    module = december(tmp_path / "new") / path
    text = module.read_text()
    assert old in text
    module.write_text(text.replace(old, new))
    folder = make_project(tmp_path / "project").folder
    done = run(folder, tmp_path / "new")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    assert lines[0].startswith("fasthep-smk: the installed FAST-HEP does not fit: it differs in ")
    assert lines[1].startswith(f"    changed  {message}")
    assert lines[-3:] == [
        "    found    fasthep-flow 2026.12.0",
        "    tested   up to 2026.10.1",
        "    hint     pip install 'fasthep-flow==2026.10.1', or a newer fasthep-smk",
    ]
    assert not list((folder / "build").rglob("record.json"))
