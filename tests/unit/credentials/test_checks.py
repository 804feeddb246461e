"""What is wrong with a credential, what to do about it, and what a refusal of one looks like."""

from __future__ import annotations

from pathlib import Path

import pytest

from fasthep_smk.config.credentials import Requirement
from fasthep_smk.credentials.checks import lack, look, problems, renewal
from fasthep_smk.credentials.credential import Credential
from fasthep_smk.credentials.refusals import is_refusal
from fasthep_smk.run.credential_need import without_secrets
from fasthep_smk.storage import failures
from tests.support.credentials import proxy, secret_parts, token, write
from tests.unit.credentials.test_credential import HOUR, alone

__all__ = ["alone"]  # a fixture


NOW = 1_800_000_000.0


def a_token(**known: object) -> Credential:
    said = {"path": Path("/home/a/bt"), "mode": 0o600, "end": NOW + HOUR, **known}
    return Credential("token", "/home/a/bt", **said)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (None, "there is no bearer token"),
        (a_token(), None),
        (a_token(end=None), None),
        (a_token(end=NOW), "the bearer token has expired"),
        (a_token(end=NOW + 1), "the bearer token expires before the longest job may end"),
        (a_token(end=NOW + 1799), "the bearer token expires before the longest job may end"),
        (a_token(end=NOW + 1800), None),
        (a_token(begin=NOW + 61), "the bearer token is not valid yet"),
        (a_token(begin=NOW + 59), None),
        (a_token(mode=0o640), "others may read the bearer token"),
        (a_token(mode=0o604), "others may read the bearer token"),
        (a_token(mode=0o622), "others may read the bearer token"),
        (a_token(mode=0o700), None),
        (a_token(mode=None), None),
    ],
)
def test_what_is_wrong(found: Credential | None, what: str | None) -> None:
    wrong = problems(Requirement("token"), found, now=NOW, until=NOW + 1800)
    assert [one.what for one in wrong] == ([] if what is None else [what])
    assert all(
        one.early == (what == "the bearer token expires before the longest job may end")
        for one in wrong
    )
    assert all(one.fix for one in wrong)


def test_several_things_are_wrong() -> None:
    required = Requirement("token", issuer="https://other.example")
    wrong = problems(required, a_token(mode=0o644, end=NOW - 5, issuer="https://x/"), now=NOW)
    assert [one.what for one in wrong] == [
        "others may read the bearer token",
        "the bearer token was issued by another authority",
        "the bearer token has expired",
    ]
    assert wrong[0].fix == "chmod 600 /home/a/bt"


def test_the_slash_at_the_end_of_an_issuer_does_not_matter() -> None:
    required = Requirement("token", issuer="https://x")
    assert not problems(required, a_token(issuer="https://x/"), now=NOW)


def test_mends(monkeypatch: pytest.MonkeyPatch) -> None:
    assert renewal(Requirement("x509"), None) == "voms-proxy-init --valid 24:00"
    asked = Requirement("x509", ("cms", "dteam"))
    assert renewal(asked, None, 30.5 * HOUR) == (
        "voms-proxy-init --voms cms --voms dteam --valid 32:00"
    )
    by_default = Credential("x509", "", Path("/tmp/x509up_u987654321"))
    assert renewal(Requirement("x509"), by_default) == "voms-proxy-init --valid 24:00"
    monkeypatch.setenv("X509_USER_PROXY", "/home/my proxy")
    said = "voms-proxy-init --valid 24:00 --out '/home/my proxy'"
    assert renewal(Requirement("x509"), None) == said
    assert renewal(Requirement("kerberos"), None) == "kinit"
    assert "/home/a/bt, mode 600" in renewal(Requirement("token"), a_token())
    in_variable = Credential("token", "BEARER_TOKEN")
    assert "a variable cannot be renewed" in renewal(Requirement("token"), in_variable)


def test_why_jobs_wait() -> None:
    required = Requirement("token")
    assert lack(required, a_token(), now=NOW) is None
    assert lack(required, a_token(mode=0o644), now=NOW) is None  # said before the run
    assert lack(required, None, now=NOW) == "the bearer token is gone"
    ended = lack(required, a_token(end=NOW), now=NOW)
    assert ended == "the bearer token (/home/a/bt) expired at 2027-01-15 08:00:00 UTC"


def test_nothing_secret_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, (pem, _) = token(60), proxy(10, 900)
    write(tmp_path / "bt_u987654321", text, mode=0o644)
    monkeypatch.setenv("X509_USER_PROXY", str(write(tmp_path / "proxy", pem, mode=0o644)))
    found = look()
    wrong = [problems(Requirement(kind), one, now=0) for kind, one in found.items()]
    assert found.keys() == {"x509", "token"}
    assert all(wrong)
    shown = f"{found} {wrong} {[vars(one) for one in found.values()]}".encode()
    for secret in [*secret_parts(text), *secret_parts(pem)]:
        assert secret not in shown


def test_a_token_stays_out_of_messages() -> None:
    text = token(60)
    error = OSError(f"GET https://x/?authz=Bearer%20{text}&a=1: HTTP Error 401")
    shown = failures.one_line(error)
    assert shown == "OSError: GET https://x/?authz=Bearer%20<token>&a=1: HTTP Error 401"


def test_a_token_in_the_environment_stays_here() -> None:
    variables = {"BEARER_TOKEN": "secret", "BEARER_TOKEN_FILE": "/a", "HOME": "/b"}
    assert without_secrets(variables) == {"BEARER_TOKEN_FILE": "/a", "HOME": "/b"}


class Answered(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


@pytest.mark.parametrize(
    "error",
    [
        OSError("[FATAL] Auth failed: No protocols left to try"),
        OSError("[ERROR] Server responded with an error: [3010] Unable to open; permission denied"),
        OSError("HTTP Error 401: Unauthorized"),
        Answered(403),
        ValueError("403, message='Forbidden', url='https://x'"),
        OSError("401 Client Error: Unauthorized for url: https://x"),
        OSError("[SSL: SSLV3_ALERT_CERTIFICATE_EXPIRED] sslv3 alert certificate expired"),
        OSError("certificate verify failed: certificate has expired (_ssl.c:1006)"),
        OSError("opening root://x//f: Permission denied"),
    ],
)
def test_refusals(error: Exception) -> None:
    assert is_refusal(error)
    wrapped = RuntimeError("stage failed")
    wrapped.__cause__ = error
    assert is_refusal(wrapped)


@pytest.mark.parametrize(
    "error",
    [
        OSError("Permission denied: '/data/a.root'"),
        ValueError("401 entries instead of 403"),
        ValueError("not found in axis: 403"),
        KeyError("branch 'Auth'"),
        OSError("[ERROR] Server responded with an error: [3011] No such file or directory"),
        OSError("HTTP Error 404: Not Found"),
        ZeroDivisionError("division by zero"),
        Answered(404),
    ],
)
def test_no_refusals(error: Exception) -> None:
    assert not is_refusal(error, "/data/a.root")


def test_permission_denied_by_a_server() -> None:
    assert is_refusal(OSError("Permission denied"), "root://server//a.root")
