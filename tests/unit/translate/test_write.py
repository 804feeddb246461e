"""Which Python the script of a job starts."""

from __future__ import annotations

import importlib
import os
import subprocess
from pathlib import Path

import pytest

from fasthep_smk.translate.write import worker_script

STAND_IN = '#!/bin/sh\necho "$0" "$@" >>"$STARTED"\n'
WORDS = ["debug/a.log", "2", "1", "stage_A", "dy", "0_0"]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A build folder with the script of jobs, and a Python that notes how it was started."""
    for folder in ("smk", "debug", "env/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "smk/worker").write_text(worker_script())
    python = tmp_path / "env/bin/python3"
    python.write_text(STAND_IN)
    python.chmod(0o755)
    return tmp_path


def started(build: Path, **variables: str) -> list[str]:
    """Start a job; return the command of the stand-in, nothing if it was not started."""
    noted = build / "started.txt"
    given = {name: value for name, value in os.environ.items() if "CONDA" not in name}
    path = f"{build}/env/bin:{os.environ['PATH']}"
    env = {**given, "PATH": path, "STARTED": str(noted), **variables}
    subprocess.run(["sh", "smk/worker", *WORDS], cwd=build, env=env, capture_output=True)
    return noted.read_text().split() if noted.exists() else []


def test_in_an_environment_that_snakemake_has_made_it_is_the_one_there(job: Path) -> None:
    (job / "env.env_setup_done").touch()
    found = started(job, CONDA_PREFIX=str(job / "env"))
    assert found[0] == str(job / "env/bin/python3")
    assert found[1:4] == ["-P", "-m", "fasthep_smk.worker"]
    assert found[4:] == ["--attempt", "2", "--threads", "1", "--", "stage_A", "dy", "0_0"]


def test_in_a_container_it_is_the_one_there(job: Path) -> None:
    assert started(job, APPTAINER_CONTAINER="image.sif")[1:4] == ["-P", "-m", "fasthep_smk.worker"]


@pytest.mark.parametrize("how", ["no environment", "the user's own"])
def test_elsewhere_it_is_the_one_of_the_run(job: Path, how: str) -> None:
    own = {} if how == "no environment" else {"CONDA_PREFIX": str(job / "env")}
    assert started(job, **own) == []


def test_snakemake_puts_that_file_there() -> None:
    importlib.import_module("snakemake.cli")  # the modules below it import each other
    conda = importlib.import_module("snakemake.deployment.conda")
    marker = conda.get_env_setup_done_flag_file(Path("conda/1a2b_"))
    assert marker == Path("conda/1a2b_.env_setup_done")
