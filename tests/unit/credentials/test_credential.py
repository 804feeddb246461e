"""What is found out about proxies, tokens and tickets, and what is wrong with them."""

from __future__ import annotations

import base64
import os
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fasthep_smk.config.credentials import Requirement
from fasthep_smk.credentials import proxies, tokens
from fasthep_smk.credentials.checks import lack, look, problems
from fasthep_smk.credentials.credential import Credential
from fasthep_smk.credentials.kerberos import find_ticket
from fasthep_smk.credentials.proxies import find_proxy
from fasthep_smk.credentials.tokens import find_token
from tests.support.credentials import proxy, token, voms_extension, write

HOUR = 3600.0


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No credential but those of the test: no variable, nobody's files in /tmp, no klist."""
    for name in ("X509_USER_PROXY", "BEARER_TOKEN", "BEARER_TOKEN_FILE", "KRB5CCNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: 987654321)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def made_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *hours: float) -> Credential:
    path = write(tmp_path / "proxy", proxy(*hours)[0])
    monkeypatch.setenv("X509_USER_PROXY", str(path))
    found = find_proxy()
    assert found is not None
    return found


def test_nothing_is_there() -> None:
    assert look() == {}


@pytest.mark.parametrize("hours", [(5, 100, 900), (100, 5, 900), (100, 900, 5)])
def test_the_end_of_a_proxy_is_that_of_its_first_certificate_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: tuple[float, ...]
) -> None:
    found = made_proxy(tmp_path, monkeypatch, *hours)
    assert found.end == pytest.approx(time.time() + 5 * HOUR, abs=5)
    assert found.subject == "CN=1002,CN=1001,CN=Alice,DC=example"
    assert found.issuer == "CN=Test authority"
    assert found.mode == 0o600
    assert not found.attested


def test_a_proxy_of_a_virtual_organisation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its attributes may end before it does."""
    extension = voms_extension("/cms/Role=NULL/Capability=NULL", "/cms/higgs", hours=3)
    path = write(tmp_path / "proxy", proxy(10, 900, voms=extension)[0])
    monkeypatch.setenv("X509_USER_PROXY", str(path))
    found = find_proxy()
    assert found is not None
    assert (found.attested, found.vos) == (True, ("cms",))
    assert found.end == pytest.approx(time.time() + 3 * HOUR, abs=5)
    (problem,) = problems(Requirement("x509", ("atlas",)), found, now=time.time())
    assert problem.what == "the X509 proxy has no VOMS attributes of atlas"
    assert problem.found == f"{path}: cms"
    assert not problems(Requirement("x509", ("cms",)), found, now=time.time())


def test_attributes_that_cannot_be_read_are_attributes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for odd in (b"", b"\x30\x00", b"\x30\x04\x30\x02\x30\x00", b"text", voms_extension("cms")):
        path = write(tmp_path / "proxy", proxy(10, 900, voms=odd)[0])
        monkeypatch.setenv("X509_USER_PROXY", str(path))
        found = find_proxy()
        assert found is not None
        assert (found.problem, found.attested, found.vos) == (None, True, ())
        assert not problems(Requirement("x509", ("cms",)), found, now=time.time())


def test_a_proxy_without_attributes_is_of_no_organisation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = made_proxy(tmp_path, monkeypatch, 10, 900)
    (problem,) = problems(Requirement("x509", ("cms",)), found, now=time.time())
    assert problem.found is not None
    assert problem.found.endswith(": no VOMS attributes")
    assert problem.fix == f"voms-proxy-init --voms cms --valid 24:00 --out {found.path}"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"text",
        b"\x00\xff" * 100,
        b"-----BEGIN CERTIFICATE-----\nbm90IGE=\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\n",
    ],
)
def test_a_proxy_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    path = write(tmp_path / "proxy", content)
    monkeypatch.setenv("X509_USER_PROXY", str(path))
    found = find_proxy()
    assert found is not None
    assert found.problem == "contains no readable certificate"
    (problem,) = problems(Requirement("x509"), found, now=time.time())
    assert problem.what == "the X509 proxy cannot be read"
    assert problem.found == f"{path}: contains no readable certificate"


def test_what_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * 1_000_001)
    special = "cannot be read: is a pipe, a device or a folder, not a file"
    for name, problem in (
        ("pipe", special),
        (".", "cannot be read: Is a directory"),
        ("large", "is too large for a credential"),
        ("large/proxy", "cannot be read: Not a directory"),
    ):
        monkeypatch.setenv("X509_USER_PROXY", str(tmp_path / name))
        monkeypatch.setenv("BEARER_TOKEN_FILE", str(tmp_path / name))
        for found in (find_proxy(), find_token()):
            assert found is not None
            assert found.problem == problem


def test_where_a_token_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The places of the WLCG's rules, last to first."""

    def subject() -> str | None:
        found = find_token()
        return found.subject if found else None

    monkeypatch.setattr(tokens, "_paths", lambda: [tmp_path / "in_tmp"])
    write(tmp_path / "in_tmp", token(60, sub="tmp"))
    assert subject() == "tmp"
    monkeypatch.undo()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("BEARER_TOKEN", raising=False)
    monkeypatch.delenv("BEARER_TOKEN_FILE", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 7)
    assert [str(path) for path in tokens._paths()] == [f"{tmp_path}/bt_u7", "/tmp/bt_u7"]
    write(tmp_path / "bt_u7", token(60, sub="runtime") + "\n")
    assert subject() == "runtime"
    monkeypatch.setenv("BEARER_TOKEN_FILE", str(tmp_path / "named"))
    assert subject() is None  # what is named is meant
    write(tmp_path / "named", token(60, sub="named"))
    assert subject() == "named"
    monkeypatch.setenv("BEARER_TOKEN", token(60, sub="variable"))
    assert subject() == "variable"
    found = find_token()
    assert found is not None
    assert (found.where, found.path, found.mode) == ("BEARER_TOKEN", None, None)


def test_what_a_token_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEARER_TOKEN", token(60, nbf=time.time() - 5))
    found = find_token()
    assert found is not None
    assert (found.subject, found.issuer) == ("alice", "https://issuer.example/")
    assert found.end == pytest.approx(time.time() + 60, abs=2)
    assert found.begin == pytest.approx(time.time() - 5, abs=2)
    monkeypatch.setenv("BEARER_TOKEN", token(None))
    found = find_token()
    assert found is not None
    assert found.end is None
    assert not problems(Requirement("token"), found, now=time.time(), until=1e10)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("text", "is not a JSON web token: its expiry time is unknown"),
        ("a.b.c", "is not a JSON web token: its expiry time is unknown"),
        (token(60)[:-60].rpartition(".")[0], "is not a JSON web token: its expiry time is unknown"),
        ("\udcff", "is not a JSON web token: its expiry time is unknown"),
        (token(None, exp="tomorrow"), "its exp is not a time"),
        (token(None, exp=True), "its exp is not a time"),
        (token(60, nbf=[1]), "its nbf is not a time"),
    ],
)
def test_a_token_that_cannot_be_read(
    text: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEARER_TOKEN", text)
    found = find_token()
    assert found is not None
    assert found.problem == problem
    assert text not in repr(found)


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_damage_is_never_a_traceback(data: st.DataObject) -> None:
    """Bytes changed anywhere in a proxy's certificates, in its attributes or in a token."""
    kind = data.draw(st.sampled_from(("der", "voms", "claims")))
    content = bytearray(GOOD[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    if kind == "claims":
        body = base64.urlsafe_b64encode(content).rstrip(b"=")
        text = b".".join([GOOD["head"], body, b"c2ln"])
        found = tokens._described("there", None, text, None)
    elif kind == "der":
        text = pem(bytes(content))
        found = proxies._described(Path("there"), text, 0o600)
    else:
        found = proxies._described(Path("there"), proxy(5, voms=bytes(content))[0], 0o600)
    problems(Requirement(found.kind, ("cms",)), found, now=time.time())
    lack(Requirement(found.kind), found, now=1e12)


def pem(der: bytes) -> bytes:
    body = base64.encodebytes(der)
    return b"-----BEGIN CERTIFICATE-----\n" + body + b"-----END CERTIFICATE-----\n"


VOMS = voms_extension("/cms/Role=NULL")
GOOD = {
    "der": proxy(5, voms=VOMS)[1][0].public_bytes(serialization.Encoding.DER),
    "voms": VOMS,
    "claims": b'{"sub": "alice", "exp": 1800000000, "nbf": 1700000000, "iss": ["a"]}',
    "head": token(60).partition(".")[0].encode(),
}


def test_deep_nesting_in_a_token() -> None:
    body = base64.urlsafe_b64encode(b'{"a":' + b"[" * 100_000).rstrip(b"=")
    found = tokens._described("there", None, b".".join([GOOD["head"], body, b"c2ln"]), None)
    assert found.problem == "is not a JSON web token: its expiry time is unknown"


def test_an_empty_token_file(tmp_path: Path) -> None:
    write(tmp_path / "bt_u987654321", "\n")
    found = find_token()
    assert found is not None
    assert found.problem == "is empty"


MIT = """\
Ticket cache: FILE:{cache}
Default principal: alice@CERN.CH

Valid starting     Expires            Service principal
11/22/26 04:00:00  11/23/26 05:06:07  krbtgt/CERN.CH@CERN.CH
\trenew until 11/27/26 04:00:00
11/22/26 04:10:00  11/22/26 05:00:00  afs/cern.ch@CERN.CH
"""
HEIMDAL = """\
Credentials cache: FILE:{cache}
        Principal: alice@CERN.CH

  Issued                Expires               Principal
Nov 22 04:00:00 2026  Nov 23 05:06:07 2026  krbtgt/CERN.CH@CERN.CH
"""


@pytest.mark.parametrize("said", [MIT, MIT.replace("/26 ", "/2026 "), HEIMDAL])
def test_a_ticket(tmp_path: Path, said: str) -> None:
    cache = write(tmp_path / "cache", "a secret")
    with_klist(tmp_path, said.format(cache=cache))
    found = find_ticket()
    assert found is not None
    assert (found.subject, found.issuer, found.path) == ("alice@CERN.CH", "CERN.CH", cache)
    assert found.mode == 0o600
    assert time.localtime(found.end)[:6] == (2026, 11, 23, 5, 6, 7)
    assert time.localtime(found.begin)[:6] == (2026, 11, 22, 4, 0, 0)


def test_a_ticket_that_has_expired(tmp_path: Path) -> None:
    """Heimdal does not say when."""
    said = HEIMDAL.replace("Nov 23 05:06:07 2026", ">>>Expired<<<").replace("2026", "2020")
    with_klist(tmp_path, said.format(cache=tmp_path / "none"))
    found = find_ticket()
    assert found is not None
    (problem,) = problems(Requirement("kerberos"), found, now=time.time())
    assert (problem.what, problem.fix) == ("the Kerberos ticket has expired", "kinit")


def test_a_ticket_without_an_end(tmp_path: Path) -> None:
    with_klist(tmp_path, "Ticket cache: KCM:0\nDefault principal: alice@CERN.CH\n")
    found = find_ticket()
    assert found is not None
    assert found.where == "KCM:0"
    assert found.problem == "klist shows no ticket-granting ticket with an end time"


def with_klist(tmp_path: Path, said: str) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "said").write_text(said)
    klist = tmp_path / "bin" / "klist"
    klist.write_text(f"#!/bin/sh\n[ $LC_ALL = C ] && exec /bin/cat '{tmp_path}/said'\n")
    klist.chmod(0o755)
