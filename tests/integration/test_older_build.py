"""A build folder of an older version is continued, or refused with one clear sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import Run

pytestmark = pytest.mark.integration

FOLDER = Path(__file__).parent / "older_builds"
VERSIONS = sorted(path.name.partition(".")[0] for path in FOLDER.glob("*.tar.gz"))
OPTIONS = ("-o", "build", "--granularity", "stage")


@pytest.fixture(params=VERSIONS)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    for name in ("workflow.yaml", "make_events.py"):
        (tmp_path / name).write_text((FOLDER / name).read_text())
    subprocess.run([sys.executable, "make_events.py"], cwd=tmp_path, check=True)
    archive = FOLDER / f"{request.param}.tar.gz"
    subprocess.run(["tar", "-xzf", archive, "-C", tmp_path], check=True)
    return tmp_path


def events_passing(project: Path) -> list[int]:
    cutflow = json.loads((project / "build/artifacts/cutflows/Cuts.json").read_text())
    return [row["n_unweighted_out"] for row in cutflow["nodes"][0]["stats"].values()]


def test_it_is_looked_at_continued_and_cleaned(project: Path, smk: Run) -> None:
    before = sorted((project / "build/smk/work").rglob("*"))
    for command in (["status", "build"], ["clean", "build"]):
        refused = smk(*command, cwd=project)
        said = " ".join(refused.stderr.split())
        assert refused.returncode == 1
        assert said.startswith("fasthep-smk: 1 problem: - ")
        assert "is not a task table of this version of fasthep-smk" in said
        assert said.endswith("'fasthep-smk translate workflow.yaml' writes it again")
    assert sorted((project / "build/smk/work").rglob("*")) == before
    why = smk("why", "workflow.yaml", *OPTIONS, cwd=project)
    assert why.returncode == 0, why.stderr
    assert "up to date: " in why.stdout
    run = smk("workflow.yaml", *OPTIONS, "-j", "2", cwd=project)
    assert run.returncode == 0, run.stderr
    assert events_passing(project) == [11]
    for command in (["status", "build"], ["clean", "build"]):
        done = smk(*command, cwd=project)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
