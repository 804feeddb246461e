"""What the doctor says of a site and of credentials, and of what probes bring back."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.cli import doctor
from fasthep_smk.cli.doctor import Check, credential_checks
from fasthep_smk.cli.probes import Silence, answer_of
from fasthep_smk.config.credentials import Requirement
from fasthep_smk.config.requests import Attempt, ResourceRequest, Route
from fasthep_smk.plan.rules import Rule
from fasthep_smk.translate.translation import execution_of_site
from tests.support.credentials import proxy, token, write

#: A partition of 4 cpus and 16000 MB, up to two minutes.
SINFO = "echo 'short|2:00|4|16000|(null)|idle|short'"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to start runs in, with nothing on PATH but its ``bin``."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    # HTCondor takes none with a blank in its path, where this one may be.
    monkeypatch.setattr(sys, "executable", "/opt/plain/bin/python")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def examined(folder: Path, system: str = "slurm", **pools: Any) -> list[Check]:
    site = folder / "site"
    site.mkdir(exist_ok=True)
    (site / "config.yaml").write_text(yaml.safe_dump({"executor": system}))
    (site / "pools.yaml").write_text(yaml.safe_dump({"pool_profiles": pools}))
    return doctor.examine(execution_of_site("site"), folder=folder, timeout=1)


def commands(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)


def failed(checks: list[Check]) -> dict[str, str]:
    return {check.what: check.found for check in checks if check.state == "FAILED"}


@pytest.mark.parametrize(
    ("system", "missing"),
    [
        ("slurm", ["sinfo", "squeue", "scancel", "scontrol"]),
        ("htcondor", ["condor_status", "condor_q", "condor_history", "condor_rm", "condor_hold"]),
    ],
)
def test_commands_that_are_missing_are_named_one_by_one(
    folder: Path, system: str, missing: list[str]
) -> None:
    commands(folder, sbatch="exit 1")
    assert failed(examined(folder, system)) == dict.fromkeys(
        missing, "there is no such command here"
    )


def slurm(folder: Path, sinfo: str = SINFO) -> None:
    commands(folder, sinfo=sinfo, **dict.fromkeys(("squeue", "sbatch", "scancel", "scontrol"), ""))


def test_what_slurm_says_itself_is_quoted(folder: Path) -> None:
    said = "slurm_load_partitions: Unable to contact slurm controller (connect failure)"
    slurm(folder, f"echo '{said}' >&2; exit 1")
    assert failed(examined(folder)) == {"slurm answers": said}


def test_no_probe_is_sent_to_a_site_that_a_run_would_be_refused_for(folder: Path) -> None:
    """Each thing that is wrong is a line of its own, in the words of a run."""
    slurm(folder)
    wrong = {"slurm": {"partition": "shrot"}}
    long = {"slurm": {"partition": "short"}, "walltime": "01:00:00"}
    checks = examined(folder, wrong={"config": wrong}, long={"config": long})
    assert not [check for check in checks if check.what.startswith("pool ")]
    found = {check.found: check.fix for check in checks if check.state == "FAILED"}
    assert found == {
        "Slurm has no partition of this name; 'shrot'": ("expected: short; did you mean 'short'?"),
        "pool 'long' asks for more than partition short has; walltime: 01:00:00": (
            "expected: at most 00:02:00; such a job would wait forever: choose another partition, "
            "or a smaller pool"
        ),
    }


HERE: Any = {
    "host": "n1",
    "python": "3.12.1",
    "cpus": 4,
    "gpus": 0,
    "clock": 0.0,
    "packages": {},
    "where": "",
    "models": [],
}


def outcome(tmp_path: Path, asked: int = 0, **there: Any) -> Check:
    path = tmp_path / "probe.json"
    path.write_text(json.dumps({**HERE, "clock": time.time(), **there}))
    found = answer_of(path)
    assert found is not None
    attempt = Attempt("deep", ResourceRequest(cpus=1, gpus=asked))
    return doctor._outcome(Rule("r", "partition", (), Route((attempt,)), ()), found, HERE)


def test_a_pool_is_shown_with_its_partition_and_gpus(tmp_path: Path) -> None:
    there = {"where": "partition gpu", "gpus": 2, "models": ["A100", "A100"], "cpus": 1}
    check = outcome(tmp_path, asked=1, **there)
    assert check == Check(
        "pool 'deep'", "ok", "n1, partition gpu: Python 3.12.1, 1 cpu, 2 GPUs (A100)"
    )


def test_a_pool_that_asks_for_gpus_and_gets_none_is_wrong(tmp_path: Path) -> None:
    check = outcome(tmp_path, asked=1, where="slot slot1@n1")
    assert check.state == "FAILED"
    assert check.found == (
        "n1, slot slot1@n1: Python 3.12.1, 4 cpus; the pool requests 1 GPU, but its job sees none"
    )


def test_another_python_there_is_wrong(tmp_path: Path) -> None:
    check = outcome(tmp_path, python="3.11.0", packages={"numpy": "1"})
    assert check.found.endswith("Python 3.11.0 on the worker, 3.12.1 here")


def test_a_silent_probe_is_told_with_its_reason_and_fix() -> None:
    rule = Rule("r", "partition", (), Route((Attempt("deep", ResourceRequest()),)), ())
    check = doctor._outcome(rule, Silence("it was refused", "ask again"), HERE)
    assert check == Check("pool 'deep'", "FAILED", "it was refused", "ask again")


def test_what_is_said_of_credentials(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "token"
    monkeypatch.delenv("BEARER_TOKEN", raising=False)
    monkeypatch.setenv("BEARER_TOKEN_FILE", str(file))
    monkeypatch.setenv("X509_USER_PROXY", str(folder / "proxy"))
    required = [Requirement("token", file="w.yaml", key="execution.credentials.token")]
    assert [(one.what, one.state) for one in credential_checks(required)] == [
        ("bearer token, required", "FAILED")
    ]
    write(file, token(3600 * 30))
    pem, _ = proxy(-1, 900)
    write(folder / "proxy", pem, mode=0o640)
    first, second = credential_checks(required)
    assert (first.what, first.state, first.fix) == ("bearer token, required", "ok", "")
    assert (
        f"{file}; subject alice; issuer https://issuer.example/; mode 600; expires " in first.found
    )
    assert ", 30.0 h left" in first.found
    assert (second.what, second.state) == ("X509 proxy", "note")
    assert "others may read the X509 proxy; the X509 proxy has expired; " in second.found
    assert "chmod 600" in second.fix
    assert "voms-proxy-init" in second.fix
    write(file, token(3600))
    (first, _) = credential_checks(required)
    assert (first.state, first.fix[:15]) == ("note", "get a new token")
    assert str(file) in first.fix
