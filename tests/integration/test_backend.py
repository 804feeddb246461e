"""``fasthep run --backend snakemake`` runs a workflow, unedited, as our own command does."""

from __future__ import annotations

import json
import os
import re
from hashlib import sha256
from pathlib import Path

import hepflow.api
import pytest
import yaml

from fasthep_smk.backend.project_profile import enable
from fasthep_smk.storage import layout
from fasthep_smk.util.errors import RunFailed
from tests.integration.conftest import Run
from tests.support import cases, warm
from tests.support.compare import compare_builds
from tests.support.forms import chosen

pytestmark = pytest.mark.integration

SHORT = ("cutflow_single", "toy")
#: A machine that has what the workflow's pools ask for.
MACHINE = "machine: {cpus: 8, memory: 64GB, gpus: 1}\n"


def digests(folder: Path) -> dict[str, str]:
    """What a project's own files are, besides data and what runs make."""
    files = [*folder.glob("*.yaml"), *folder.glob("*.py"), *folder.glob("profiles/*")]
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in files if path.is_file()}


def told_by(summary: Path) -> str:
    """What a summary tells, but for the id of what is compiled, of which our own code is."""
    return re.sub(r"^bundle_id: .*$", "", summary.read_text(), flags=re.MULTILINE)


def fasthep(folder: Path, *words: str, env: dict[str, str] | None = None) -> str:
    """Run FAST-HEP's command; return what it printed to standard error."""
    done = warm.run("run", *words, program=warm.FASTHEP, cwd=folder, env=env)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return done.stderr


@pytest.mark.parametrize("name", chosen([one.name for one in cases.CASES], lambda n: n in SHORT))
def test_results_are_those_of_our_own_command(name: str, tmp_path: Path) -> None:
    case = cases.case(name)
    workflow = case.prepare(tmp_path).name
    env = case.env(tmp_path)
    site = "local"
    if case.options:  # --shrink-to-fit, for which FAST-HEP's command has no word
        site = "site"
        (tmp_path / site).mkdir()
        (tmp_path / site / "config.yaml").write_text("executor: local\n")
        (tmp_path / site / "pools.yaml").write_text(MACHINE)
    chunk = next((str(size) for size in case.chunk_sizes if size), None)
    sized = ["--chunk-size", chunk] if chunk else []
    before = digests(tmp_path)

    def ours(build: str) -> str:
        options = ["-o", build, "-j", "2", "--profile", site, *sized]
        done = warm.run(workflow, *options, cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    ours("ours")
    enable(tmp_path)
    assert ours("ours").startswith("everything was up to date"), "because of the profile"
    command = [workflow, "--outdir", "theirs", "--backend", "snakemake", "--strategy", site, *sized]
    said = fasthep(tmp_path, *command, "--workers", "2", env=env)
    assert said.splitlines()[-1].startswith(("Run complete: ", "fasthep-smk: the run included"))
    assert not compare_builds(tmp_path / "ours", tmp_path / "theirs")
    assert digests(tmp_path) == before

    summaries = [*tmp_path.glob("theirs/**/run_summary.yaml")]
    told = {path: told_by(path) for path in summaries}
    assert ours("theirs").startswith("everything was up to date")
    fasthep(tmp_path, *command, env=env)
    assert {path: told_by(path) for path in summaries} == told


@pytest.fixture
def project(analysis: Path) -> Path:
    """The small analysis, in a folder where FAST-HEP finds us."""
    enable(analysis)
    return analysis


def test_the_site_is_that_of_our_own_command(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the workflow itself says comes after the environment and a default beside it."""

    def site() -> str:
        fasthep(project, "workflow.yaml", "--outdir", "build")
        return str(json.loads((project / "build" / layout.LAST_RUN).read_text())["site"])

    workflow = project / "workflow.yaml"
    workflow.write_text("execution: {backend: snakemake, strategy: slurm}\n" + workflow.read_text())
    beside = project / "profiles/default"
    beside.mkdir(parents=True)
    (beside / "config.yaml").write_text("executor: local\n")
    assert site() == str(beside)
    workflow.write_text(workflow.read_text().replace("met > 5", "met > 6"))
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "local")
    assert site() == "local"


BROKEN = """
SPEC = {"name": "own.op", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}

def run(*, stream, **_):
    raise ValueError("no muons today")
"""
RAISE = 'raise ValueError("no muons today")'
STAGE = "    - {id: Own, op: own.op}\n    - id: Cuts"
COMMAND = ("workflow.yaml", "--outdir", "build", "--backend", "snakemake")


def test_a_failed_job_ends_the_command_with_one_message(project: Path, smk: Run) -> None:
    (project / "own_op.py").write_text(BROKEN)
    text = (project / "workflow.yaml").read_text()
    registry = "registry: {transforms: {own.op: {spec: 'own_op:SPEC', impl: 'own_op:run'}}}\n"
    (project / "workflow.yaml").write_text(registry + text.replace("    - id: Cuts", STAGE))
    env = {**os.environ, "PYTHONPATH": str(project)}
    done = warm.run("run", *COMMAND, program=warm.FASTHEP, cwd=project, env=env)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr and "Run complete" not in done.stdout
    assert done.stderr.count("fasthep-smk: ") == 1
    assert "no muons today" in done.stderr
    assert "Run failed: " in done.stderr and " 0 failed" not in done.stderr.splitlines()[-1]
    assert "no muons today" in smk("status", cwd=project).stdout

    (project / "own_op.py").write_text(BROKEN.replace(RAISE, "return stream"))
    fasthep(project, *COMMAND, env={**os.environ, "PYTHONPATH": str(project)})
    assert yaml.safe_load((project / "build/run_summary.yaml").read_text())["success"] is True


VARIED = """
systematics:
  include_nominal: true
  variations: [{name: other, mode: plan, replace: {met: MET_px}}]
"""


def test_all_variations_are_run(project: Path) -> None:
    with (project / "workflow.yaml").open("a") as stream:
        stream.write(VARIED)
    said = fasthep(project, *COMMAND)
    assert "the run included all variations: nominal, other" in said
    histograms = project / "build/artifacts"
    nominal, other = (histograms / name / "histograms/Met.pkl" for name in ("nominal", "other"))
    assert nominal.read_bytes() != other.read_bytes()


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        ({"partition_numbers": [2]}, "--partition"),
        ({"scheduler": "tcp://there:8786"}, "--scheduler"),
        ({"strategy": "slrm"}, "--strategy"),
    ],
)
def test_what_the_backend_cannot_do_is_refused(
    project: Path,
    asked: dict[str, object],
    key: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(project)
    with pytest.raises(RunFailed, match=key):
        hepflow.api.run_workflow_file("workflow.yaml", outdir="b", backend="snakemake", **asked)
    assert f"fasthep-smk: 1 problem:\n- {key}: " in capfd.readouterr().err
    assert not (project / "b/smk/Snakefile").exists()


def test_a_plan_of_an_earlier_workflow_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    hepflow.api.compile_workflow_file("workflow.yaml", outdir="b")
    text = (project / "workflow.yaml").read_text()
    (project / "workflow.yaml").write_text(text.replace("met > 5", "met > 6"))
    with pytest.raises(RunFailed, match="compile the workflow again"):
        hepflow.api.run_plan_file("b/compile/plan.yaml", backend="snakemake")
