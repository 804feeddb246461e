"""What happens while a credential has ended: Snakemake's scheduler, a job's tries."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fasthep_smk.config.credentials import Requirement
from fasthep_smk.credentials.checks import lacking
from fasthep_smk.credentials.required import required_of
from fasthep_smk.executors import credential_gate
from fasthep_smk.executors.credential_gate import Gate
from fasthep_smk.run.prestart import environment
from fasthep_smk.storage import layout
from tests.support.credentials import token, valid_token, write

REQUIRED = (Requirement("token"),)
RENEWAL = "get a new token"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the token, which is valid at first."""
    return valid_token(tmp_path, monkeypatch)


def test_what_a_build_folder_requires(tmp_path: Path) -> None:
    assert required_of(tmp_path) == ()
    path = tmp_path / layout.REQUESTS
    path.parent.mkdir()
    for text in ("{", "{}", '{"credentials": []}'):
        path.write_text(text)
        assert required_of(tmp_path) == ()
    path.write_text(json.dumps({"credentials": [one.as_data() for one in REQUIRED]}))
    assert required_of(tmp_path) == REQUIRED


def test_the_gate_is_shut_while_the_token_has_ended(file: Path) -> None:
    told: list[str] = []
    found = Gate(REQUIRED, told.append)

    def is_open() -> bool:
        found.look()
        return found.is_open()

    assert is_open()
    write(file, token(-1))
    assert found.is_open()  # it is not looked at
    assert not is_open()
    write(file, token(1.5))  # it would end before the next look but one
    assert not is_open()
    assert not is_open()
    write(file, token(3600))
    assert is_open()
    assert is_open()
    assert len(told) == 2  # each change once
    assert told[0].startswith(f"the bearer token ({file}) expired at ")
    assert f": jobs wait until you renew it: {RENEWAL}" in told[0]
    assert told[1].startswith("the bearer token was renewed and is valid until ")
    file.unlink()
    assert not is_open()
    assert told[2].startswith("the bearer token is gone: jobs wait until you renew it: ")
    assert Gate(()).is_open()


def test_the_user_is_told_while_no_job_is_to_be_chosen(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credential_gate, "PAUSE", 0.01)
    told = threading.Event()
    over = Gate(REQUIRED, lambda _: told.set()).keep_looking()
    assert not told.wait(0.05)
    write(file, token(-1))
    assert told.wait(30)
    over.set()


@pytest.mark.parametrize(
    ("seconds", "renewed", "come"),
    [(3600, False, False), (3600, True, True), (-10, False, True), (10, False, True)],
)
def test_others_come_if_these_have_ended_or_are_renewed(
    file: Path, seconds: float, renewed: bool, come: bool
) -> None:
    """A server that refuses a valid one will refuse it again; but its clock may differ."""
    write(file, token(seconds))
    found = Gate(REQUIRED, lambda _: None)
    job: Any = SimpleNamespace(jobid=3)
    found.look()
    found.chosen([job])
    if renewed:
        write(file, token(7200))
    assert found.others_come(job) == come
    assert found.is_open() == (seconds == 3600)  # the server has refused what ends in 10 s
    write(file, token(3600))
    found.look()
    assert found.is_open()
    assert not Gate(()).others_come(job)


def test_a_ticket_is_not_missed_where_nobody_can_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert lacking([Requirement("kerberos")]) == {}


def test_a_batch_system_is_not_told_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm would keep it in the records of its jobs."""
    monkeypatch.setenv("BEARER_TOKEN", token(60))
    systems = ("local", "slurm", "htcondor")
    told = ["BEARER_TOKEN" in environment(tmp_path, None, system) for system in systems]
    assert told == [True, False, False]


def test_a_relative_name_means_the_same_in_the_build_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snakemake and its jobs do not run where the run was started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BEARER_TOKEN_FILE", "secrets/token")
    monkeypatch.setenv("X509_USER_PROXY", "/elsewhere/proxy")
    found = environment(tmp_path, None)
    assert found["BEARER_TOKEN_FILE"] == str(tmp_path / "secrets/token")
    assert found["X509_USER_PROXY"] == "/elsewhere/proxy"
