"""Made-up releases: they run with a note, or are refused with what has changed."""

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
#: What is replaced in all its files, and how the message begins.
CHANGES = {
    "signature": (
        "def execute_plan_partition(\n    plan: ExecutionPlan,",
        "def execute_plan_partition(\n    execution_plan: ExecutionPlan,",
        "hepflow.runtime.engine.execute_plan_partition no longer takes 'plan'",
    ),
    "name": (
        "materialize_final_products",
        "materialize_all_products",
        "hepflow.runtime.materialize.materialize_final_products is gone",
    ),
}


def december(folder: Path, old: str = "", new: str = "") -> None:
    """A copy of the installed hepflow that says it is of December, to be put first."""
    package = folder / "hepflow"
    shutil.copytree(Path(hepflow.__file__).parent, package)
    if old:
        for path in package.rglob("*.py"):
            path.write_text(path.read_text().replace(old, new))
    now = metadata.distribution("fasthep-flow")
    about = folder / "fasthep_flow-2026.12.0.dist-info"
    about.mkdir()
    text = now.read_text("METADATA") or ""
    (about / "METADATA").write_text(text.replace(f"Version: {now.version}", "Version: 2026.12.0"))


def run(
    folder: Path, first: Path, *options: str, command: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(first), "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, "-m", "fasthep_smk", *command, "workflow.yaml", *options],
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
    for options in ([], ["-n"]):
        done = run(folder, tmp_path / "new", *options)
        assert done.returncode == 0, done.stderr
        notes.append([line for line in done.stderr.splitlines() if "was not tested" in line])
    assert notes == [
        [
            "fasthep-smk: warning: fasthep-flow 2026.12.0 was not tested with this fasthep-smk "
            "(newest tested: 2026.10.1); the parts that fasthep-smk uses have not changed"
        ],
        [],
    ]


@pytest.mark.parametrize("change", CHANGES)
def test_a_release_with_a_change_is_refused_with_what_has_changed(
    change: str, tmp_path: Path
) -> None:
    old, new, message = CHANGES[change]
    december(tmp_path / "new", old, new)
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


def test_snakemake_10_is_refused(tmp_path: Path) -> None:
    """There, what our rules say of environments would mean something else."""
    about = tmp_path / "new" / "snakemake-10.0.1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: snakemake\nVersion: 10.0.1\n")
    folder = make_project(tmp_path / "project").folder
    done = run(folder, tmp_path / "new", command=("translate",))
    assert done.returncode != 0
    assert "this Snakemake cannot be used: Snakemake 10.0.1" in done.stderr
    assert "hint: pip install 'snakemake<10'" in done.stderr
    assert not (folder / "build" / "smk" / "Snakefile").exists()
