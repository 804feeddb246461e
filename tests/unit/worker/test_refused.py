"""What an error of a job says of its credentials."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from fasthep_smk.config.credentials import Requirement
from fasthep_smk.worker.refused import Refused, refusal, stop_without
from tests.support.credentials import token, valid_token, write

REQUIRED = [Requirement("token").as_data()]
RENEWAL = "get a new token"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the token, which is valid at first."""
    return valid_token(tmp_path, monkeypatch)


def test_an_error_of_another_kind(file: Path) -> None:
    assert file.exists()
    assert refusal(ValueError("bad"), "a.root", REQUIRED) is None
    assert refusal(ValueError("bad"), "a.root", []) is None


def test_any_error_after_the_end_is_that_of_the_credential(file: Path) -> None:
    """What a library makes of a refusal is often no word of refusal."""
    write(file, token(-1))
    found = refusal(ValueError("bad"), "a.root", REQUIRED)
    assert isinstance(found, Refused)
    assert str(found).startswith(f"the bearer token ({file}) expired at ")
    assert str(found).endswith(f", on {socket.gethostname()} (ValueError: bad)")
    assert found.fix.startswith(RENEWAL)


def test_a_token_that_is_about_to_end_may_be_refused(file: Path) -> None:
    """A server's clock is another one."""
    write(file, token(10))
    found = refusal(OSError("HTTP Error 401: Unauthorized"), None, REQUIRED)
    assert "expire" in str(found)
    assert refusal(ValueError("bad"), None, REQUIRED) is None


def test_refused_although_it_is_valid(file: Path) -> None:
    assert file.exists()
    found = refusal(OSError("HTTP Error 403: Forbidden"), None, REQUIRED)
    assert str(found) == "a server refused its credential: OSError: HTTP Error 403: Forbidden"
    assert found is not None
    assert "right for this server" in found.fix


def test_refused_and_nothing_is_required() -> None:
    found = refusal(OSError("HTTP Error 403: Forbidden"), None, [])
    assert found is not None
    assert "execution.credentials" in found.fix


def test_a_job_that_begins_without_a_valid_token(file: Path) -> None:
    stop_without(REQUIRED)
    stop_without([])
    write(file, token(-1))
    with pytest.raises(Refused, match="expired at "):
        stop_without(REQUIRED)
    file.unlink()
    with pytest.raises(Refused, match="the bearer token is gone"):
        stop_without(REQUIRED)
