"""All commands take the same site where none is named, and a run says which."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import fasthep_smk
from fasthep_smk.config.run_settings import RunSettings
from fasthep_smk.run import whole_run
from fasthep_smk.storage import layout
from fasthep_smk.util.errors import SmkError
from tests.integration.conftest import Run

pytestmark = pytest.mark.integration

LINE = "fasthep-smk: site: local (profiles/default)"
#: A pool of a site on one machine.
POOLS = "machine: {cpus: 1, memory: 3GB}\n"


@pytest.fixture
def project(analysis: Path) -> Path:
    """The small analysis, with a site beside it."""
    profile = analysis / "profiles/default"
    profile.mkdir(parents=True)
    (profile / "config.yaml").write_text("executor: local\n")
    (profile / "pools.yaml").write_text(POOLS)
    return analysis


def test_a_run_says_once_which_site_it_takes(project: Path, smk: Run) -> None:
    done = smk("workflow.yaml", cwd=project)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines().count(LINE) == 1
    last = json.loads((project / "build" / layout.LAST_RUN).read_text())
    assert last["site"] == str(project / "profiles/default")
    again = smk("workflow.yaml", "--quiet", cwd=project)
    assert (again.returncode, again.stderr) == (0, "")
    here = smk("workflow.yaml", "--profile", "local", cwd=project)
    assert "site:" not in here.stderr


@pytest.mark.parametrize("command", ["check", "translate", "why", "forecast", "explain", "doctor"])
def test_every_command_takes_it(project: Path, smk: Run, command: str) -> None:
    assert LINE in smk(command, "workflow.yaml", cwd=project).stderr


def test_it_is_the_site_that_counts(project: Path, smk: Run) -> None:
    def site(*more: str) -> object:
        done = smk("explain", "workflow.yaml", "--json", *more, cwd=project)
        return json.loads(done.stdout)["site"]["profile"]

    assert site() == str(project / "profiles/default")
    assert site("--profile", "local") is None
    more = "default: {resources: {memory: 9GB}}\npool_profiles: {mine: {}}\n"
    (project / "profiles/default/pools.yaml").write_text(more + POOLS)
    for command in ("check", "doctor", "translate"):
        done = smk(command, "workflow.yaml", cwd=project)
        assert "9 GB" in done.stdout + done.stderr
        assert done.returncode == 1
    alone = smk("doctor", cwd=project)
    assert LINE in alone.stderr
    assert "pool 'mine'" in alone.stdout


@pytest.mark.parametrize("said", ["cluster: qsub\n", "use-conda: true\n"])
def test_a_default_that_snakemake_refuses_is_named(project: Path, smk: Run, said: str) -> None:
    (project / "profiles/default/config.yaml").write_text(said)
    done = smk("workflow.yaml", cwd=project)
    assert done.returncode == 1
    assert "options of the default site profiles/default: " in done.stderr
    assert "to run on this machine without them, use --profile local" in done.stderr
    assert smk("workflow.yaml", "--profile", "local", cwd=project).returncode == 0


def test_what_a_run_starts_early_is_for_jobs_of_the_site(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prestart(_build: Path, _held: int, system: str) -> None:
        raise SmkError(f"started for {system}")

    (project / "profiles/default/config.yaml").write_text("executor: slurm\n")
    (project / "profiles/default/pools.yaml").unlink()
    monkeypatch.chdir(project)
    monkeypatch.setattr(whole_run, "prestart", prestart)
    settings = RunSettings(workflow=Path("workflow.yaml"), outdir=Path("build"))
    with pytest.raises(SmkError, match="started for slurm"):
        whole_run.run_whole(settings)
    with pytest.raises(SmkError, match="started for local"):
        whole_run.run_whole(replace(settings, profile="local"))


def test_python_takes_it(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fasthep_smk.translate("workflow.yaml", cwd=project)
    assert LINE in capfd.readouterr().err
