"""What happens while a credential has ended: Snakemake's scheduler, a job's tries."""

from __future__ import annotations

import io
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fasthep_smk.config.credentials import Requirement
from fasthep_smk.config.run_settings import RunSettings
from fasthep_smk.credentials.required import required_of
from fasthep_smk.credentials.validity import lacking
from fasthep_smk.executors import credential_gate
from fasthep_smk.executors.credential_gate import Gate
from fasthep_smk.run import engine
from fasthep_smk.run.prestart import environment
from fasthep_smk.storage import layout
from fasthep_smk.translate.write import Written
from fasthep_smk.worker import job_retry
from fasthep_smk.worker.job_retry import Refused, Tries, tries_of
from fasthep_smk.worker.limits import TimeLimit, time_limit
from tests.support.credentials import token, write

REQUIRED = (Requirement("token"),)
RENEWAL = "get a new token"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the token, which is valid at first."""
    monkeypatch.delenv("BEARER_TOKEN", raising=False)
    monkeypatch.setenv("BEARER_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setattr(job_retry, "_PAUSE", 0.01)
    return write(tmp_path / "token", token(3600))


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
    now = 0.0
    told: list[str] = []
    found = Gate(REQUIRED, told.append, lambda: now)
    assert found.is_open()
    write(file, token(-1))
    assert found.is_open()  # it has just been looked at
    now = 2.0
    assert not found.is_open()
    write(file, token(0.9))  # it would end before the next look
    assert not found.is_open()
    assert not found.is_open()
    write(file, token(3600))
    assert found.is_open()
    assert found.is_open()
    assert len(told) == 2  # each change once
    assert told[0].startswith(f"the bearer token ({file}) expired at ")
    assert f": jobs wait; renew it: {RENEWAL}" in told[0]
    assert told[1].startswith("the bearer token was renewed, until ")
    now = 4.0
    file.unlink()
    assert not found.is_open()
    assert told[2].startswith("the bearer token is gone: jobs wait; renew it: ")
    assert Gate(()).is_open()


def test_the_user_is_told_while_no_job_is_to_be_chosen(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credential_gate, "_TRUST", 0.0)
    monkeypatch.setattr(credential_gate, "_PAUSE", 0.01)
    told = threading.Event()
    over = Gate(REQUIRED, lambda _: told.set()).keep_looking()
    assert not told.wait(0.05)
    write(file, token(-1))
    assert told.wait(30)
    over.set()


def tries(walltime: float | None = None, *, spent: float = 0.0) -> Tries:
    found, told = tries_of([one.as_data() for one in REQUIRED], walltime)
    assert told == {}
    found.wait_to_begin()
    found.begun -= spent
    found.since -= spent
    return found


def test_an_error_of_another_kind(file: Path) -> None:
    assert file.exists()
    with pytest.raises(LookupError):
        tries().settle(ValueError("bad"), "a.root")


def test_any_error_after_the_end_is_that_of_the_credential(file: Path) -> None:
    """What a library makes of a refusal is often no word of refusal."""
    mine = tries(1, spent=0.6)
    write(file, token(-1))
    found = mine.settle(ValueError("bad"), "a.root")
    assert isinstance(found, Refused)
    host = socket.gethostname()
    assert str(found).endswith(f", and no new one came in time, on {host} (ValueError: bad)")
    assert found.fix.startswith(RENEWAL)


def test_it_waits_and_goes_on(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tries()
    write(file, token(-1))
    naps: list[float] = []
    notes: list[str | None] = []
    mine.note = notes.append

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            write(file, token(3600))

    monkeypatch.setattr(job_retry.time, "sleep", sleep)
    assert mine.settle(ValueError("bad"), None) is None
    assert len(naps) == 3
    assert [note and note.partition(" expired at ")[0] for note in notes] == [
        f"the bearer token ({file})",
        None,
    ]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[], float]:
    """The time, for who waits: each sleep is a second long, and over at once."""
    now = time.time()

    def sleep(_seconds: float) -> None:
        nonlocal now
        now += 1

    monkeypatch.setattr(job_retry.time, "sleep", sleep)
    monkeypatch.setattr(job_retry.time, "time", lambda: now)
    return lambda: now


def test_it_waits_no_longer_than_leaves_it_the_time_that_it_took(
    file: Path, clock: Callable[[], float]
) -> None:
    mine = tries(100, spent=30)
    write(file, token(-1))
    start = clock()
    assert isinstance(mine.settle(ValueError("bad"), None), Refused)
    assert clock() - start == pytest.approx(100 - 30 - 36, abs=2)


def test_a_token_that_is_about_to_end_may_be_refused(file: Path) -> None:
    """A server's clock is another one."""
    write(file, token(10))
    mine = tries(1, spent=0.6)
    found = mine.settle(OSError("HTTP Error 401: Unauthorized"), None)
    assert isinstance(found, Refused)
    assert "no new one came in time" in str(found)
    with pytest.raises(LookupError):
        mine.settle(ValueError("bad"), None)


def test_renewed_while_the_job_went_on_with_the_old_one(file: Path) -> None:
    mine = tries()
    write(file, token(7200))
    assert mine.settle(OSError("HTTP Error 401: Unauthorized"), None) is None


def test_refused_although_it_is_valid(file: Path) -> None:
    assert file.exists()
    found = tries().settle(OSError("HTTP Error 403: Forbidden"), None)
    assert isinstance(found, Refused)
    assert str(found) == "a server refused its credential: OSError: HTTP Error 403: Forbidden"
    assert "right one" in found.fix


def test_refused_and_nothing_is_required() -> None:
    found = tries_of([], None)[0].settle(OSError("HTTP Error 403: Forbidden"), None)
    assert isinstance(found, Refused)
    assert "execution.credentials" in found.fix


def test_a_job_that_begins_without_a_valid_token(file: Path) -> None:
    write(file, token(-1))
    with pytest.raises(Refused, match="no new one came in time"):
        tries_of([one.as_data() for one in REQUIRED], 0.2)[0].wait_to_begin()


def test_a_worker_that_does_not_see_the_token_is_soon_left(
    file: Path, clock: Callable[[], float]
) -> None:
    """None will come there; but a file that is being replaced may be away for a moment."""
    file.unlink()
    start = clock()
    with pytest.raises(Refused, match="the bearer token is gone, and no new one came in time"):
        tries_of([one.as_data() for one in REQUIRED], 7200)[0].wait_to_begin()
    assert clock() - start == pytest.approx(60, abs=2)


def test_a_ticket_is_not_missed_where_nobody_can_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert lacking([Requirement("kerberos")]) == {}


def test_a_batch_system_is_not_told_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm would keep it in the records of its jobs."""
    monkeypatch.setenv("BEARER_TOKEN", token(60))
    started: list[Any] = []

    def follow(start: Any, *_: Any, **__: Any) -> int:
        started.append(start.args[2])
        return 0

    monkeypatch.setattr(engine, "_follow", follow)
    monkeypatch.setenv("FASTHEP_SMK_FORK_SERVER", "")
    for system in ("local", "slurm", "htcondor"):
        settings = RunSettings(workflow=tmp_path / "workflow.yaml")
        snakemake = engine.Engine(settings=settings, output=io.StringIO(), system=system)
        snakemake.run(Written.below(tmp_path))
    assert ["BEARER_TOKEN" in variables for variables in started] == [True, False, False]


def test_time_that_is_over_is_over() -> None:
    start = time.monotonic()
    with pytest.raises(TimeLimit, match="00:00:30"), time_limit(30, used=29.5):
        time.sleep(10)
    assert time.monotonic() - start < 5


def test_the_tries_of_an_attempt_share_its_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    became: list[Any] = []
    monkeypatch.setattr(os, "execv", lambda *words: became.append(words))
    monkeypatch.setenv("FASTHEP_SMK_AGAIN", "")  # so that it is removed after the test
    monkeypatch.chdir(tmp_path)
    mine = Tries(REQUIRED, 100, time.time() - 50, time.time(), {})
    mine.start(tmp_path, ["/python", "-m", "job"], bundle="a/b", marker=None)
    assert became == [("/python", ["/python", "-m", "job"])]
    found, told = tries_of([], 100)
    assert told == {"bundle": "a/b", "marker": None}
    assert found.used == pytest.approx(50, abs=2)
    assert "FASTHEP_SMK_AGAIN" not in os.environ
    assert tries_of([], 100)[0].used < 2


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
