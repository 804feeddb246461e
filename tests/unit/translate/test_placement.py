"""Folders that a shell would run, or HTCondor would split: refused before anything is submitted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.cli import doctor
from fasthep_smk.config.execution import Execution, read_execution
from fasthep_smk.translate.placement import unsafe_path

RUN_BY_SHELLS = ["$(touch CANARY)", "`touch CANARY`", "${HOME}", "$HOME", "a\nb"]
FINE = ["plain", "two words", "it's", 'a"b', "{x}", "日本語", "a;b", "a & b"]


def execution(folder: Path, executor: str, **said: Any) -> Execution:
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump({"executor": executor}))
    found, findings = read_execution(
        {"execution": said}, {}, workflow="workflow.yaml", profile=str(folder)
    )
    assert found is not None, findings
    return found


@pytest.mark.parametrize("name", RUN_BY_SHELLS)
@pytest.mark.parametrize("what", ["launch", "build", "python", "prefix"])
def test_on_slurm_no_name_of_a_folder_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, what: str
) -> None:
    monkeypatch.setattr(sys, "executable", f"/opt/{name}/bin/python" if what == "python" else "/py")
    monkeypatch.setattr(sys, "prefix", f"/opt/{name}" if what == "prefix" else "/opt/env")
    shared = {"environment": {"type": "shared-prefix", "prefix": "current"}}
    site = execution(tmp_path / "site", "slurm", **shared)
    launch = Path("/home", name if what == "launch" else "me")
    build = Path("/data", name if what == "build" else "b")
    found = unsafe_path(site, build, launch)
    assert found is not None
    assert "slurm would misread the name of" in found.problem
    assert repr(name)[1:-1] in str(found.value)
    assert "rename" in str(found.hint)


@pytest.mark.parametrize("name", FINE)
def test_on_slurm_other_names_are_fine(tmp_path: Path, name: str) -> None:
    site = execution(tmp_path / "site", "slurm")
    assert unsafe_path(site, Path("/data", name), Path("/home", name)) is None


@pytest.mark.parametrize("name", RUN_BY_SHELLS + FINE)
def test_on_this_machine_all_names_are_fine(tmp_path: Path, name: str) -> None:
    site = execution(tmp_path / "site", "local")
    assert unsafe_path(site, Path("/data", name), Path("/home", name)) is None


@pytest.mark.parametrize("name", ["two words", "it's", 'a"b', "a\tb"])
def test_htcondor_splits_no_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    site = execution(tmp_path / "site", "htcondor")
    monkeypatch.setattr(sys, "executable", "/opt/plain/bin/python")
    assert unsafe_path(site, Path("/data", name), Path("/home", name)) is None
    monkeypatch.setattr(sys, "executable", f"/opt/{name}/bin/python")
    found = unsafe_path(site, Path("/data"), Path("/home"))
    assert found is not None
    assert found.problem == "htcondor would misread the name of the Python of jobs"


def test_htcondor_splits_no_prefix(tmp_path: Path) -> None:
    asked = {"type": "shared-prefix", "prefix": "/cvmfs/our env"}
    staging = {"mode": "transfer"}
    site = execution(tmp_path / "site", "htcondor", environment=asked, staging=staging)
    found = unsafe_path(site, Path("/data"), Path("/home"))
    assert found is not None
    assert str(found).splitlines() == [
        "htcondor would misread the name of the environment of jobs",
        "    found: '/cvmfs/our env'",
        "    expected: a path without spaces, because job commands contain the path",
        "    hint: put the environment into a folder with another name, or rename this one",
    ]


def test_doctor_sends_no_probe_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    folder = tmp_path / "$(touch CANARY)"
    folder.mkdir()
    checks = doctor.examine(execution(tmp_path / "site", "slurm"), folder=folder, timeout=1)
    (found,) = [check for check in checks if check.what == "this folder"]
    assert (found.state, found.fix) == ("FAILED", "move or rename the folder")


def test_a_run_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "$(touch CANARY)"
    folder.mkdir()
    execution(tmp_path / "site", "slurm")
    (folder / "workflow.yaml").write_text(
        "version: '1.0'\nuse: {profiles: [hep]}\n"
        "data: {datasets: [{name: a, files: [a.root], eventtype: mc}]}\n"
        "analysis: {stages: [{id: A, op: hep.hist, params: {}}]}\n"
    )
    command = [sys.executable, "-m", "fasthep_smk", "workflow.yaml", "--profile", tmp_path / "site"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "slurm would misread the name of the folder that you run in" in done.stderr
    assert "1 problem" in done.stderr
    assert sorted(one.name for one in folder.iterdir()) == ["workflow.yaml"]
