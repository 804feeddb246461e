"""No secret that an error quotes is shown; ordinary text stays as it is; and it takes no time."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snakemake_interface_logger_plugins.common import LogEvent

from fasthep_smk.executors.job_events import to_line
from fasthep_smk.executors.reporting import event_of
from fasthep_smk.run.snakemake_output import Reader
from fasthep_smk.storage import failures
from fasthep_smk.util.errors import Findings, RunFailed
from fasthep_smk.util.masking import masked
from fasthep_smk.worker.processes import exit_status
from tests.support.credentials import token

TOKEN = token(60)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"refused: {TOKEN}.", "refused: <token>."),
        (f"Bearer%20{TOKEN}&a=1", "Bearer%20<token>&a=1"),
        (f"encrypted {TOKEN}.part.more", "encrypted <token>"),
        ("root://me:pass@host//a.root", "root://me:<password>@host//a.root"),
        ("'https://me:p@ss:word@host:80/a'", "'https://me:<password>@host:80/a'"),
        ("?authz=abc&b=1", "?authz=<token>&b=1"),
        ("?authz=Bearer%20abc: 401", "?authz=Bearer%20<token>: 401"),
        ("ACCESS_TOKEN=abc, gone", "ACCESS_TOKEN=<token>, gone"),
        ("?X-Amz-Signature=ab%2B&X-Amz-Date=1", "?X-Amz-Signature=<secret>&X-Amz-Date=1"),
        ("?se=1&sig=ab%2Bc%3D", "?se=1&sig=<secret>"),
        ("?cap.sym=abc&cap.msg=def", "?cap.sym=<secret>&cap.msg=<secret>"),
        ("Authorization: Bearer abc", "Authorization: Bearer <token>"),
        ("{'Authorization': 'Basic bWU6cA=='}", "{'Authorization': 'Basic <token>'}"),
        ("curl -H 'authorization:bearer a-b'", "curl -H 'authorization:bearer <token>'"),
        ("Bearer abc123_-.x~y+z/w==.", "Bearer <token>."),
        ('{"access_token": "abc", "a": "b"}', '{"access_token": "<token>", "a": "b"}'),
        ("Client(password='abc', port=80)", "Client(password='<secret>', port=80)"),
        (
            "https%3A%2F%2Fh%3Fauthz%3DBearer%2520abc",
            "https%3A%2F%2Fh%3Fauthz%3DBearer%2520<token>",
        ),
    ],
)
def test_a_secret_is_masked(text: str, shown: str) -> None:
    assert masked(text) == shown
    assert masked(shown) == shown


ORDINARY = [
    "/data/store/user/me@home/a.root:events",
    "root://host.cern.ch:1094//store/a@b/c.root",
    "https://host:8443/a.root?download=1&key=events#part",
    "root://me@host//a.root",
    "fasthep-smk 0.1.0, uproot 5.6.2.post1+local, Python 3.11.7",
    "me@cern.ch, a@b, git@github.com:me/repo.git",
    "the bearer token (/home/me/bt_u1000) expired at 2026-11-22 18:00:00 UTC",
    'Bearer error="invalid_token", Bearer authentication failed, Bearer token-based',
    "heyJude.root monkeyJungle.events keyJet.pt greyJacketCollection.phi eyJupyter.notebook",
    "fit: sig=0.5, signature=Signature(a), auth=3 key=lambda x: x[0]",
    "unexpected token: ':', token=None, password=None",
    "KeyError: 'muon_pt'; ValueError: x = 3, y == 4",
    "a://b ://@ :@ @: user:group@cluster",
    "C:\\data\\a.root 12:30:45@2026 {dataset}/{file}.root $HOME/a b=c&d=e",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_not_changed(text: str) -> None:
    assert masked(text) == text


ALPHABET = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ0123456789"
secrets = st.text(ALPHABET, min_size=12, max_size=60).map(lambda text: f"{text}7Q")
FORMS = [
    "root://me:{}@host//a.root", "https://me:{}@host:80", "?authz={}", "&access_token={}&a=1",
    "?a=1&token={}", "?X-Amz-Signature={}", "&X-Amz-Credential={}", "?Signature={}", "&sig={}",
    "Authorization: Bearer {}", "bearer {}", "authz=Bearer%20{}", '{{"refresh_token": "{}"}}',
    "api_key={}", "client_secret={}", "eyJhbGciOiJSUzI1NiJ9.{}.c2ln", "eyJ0eXAiOiJKV1QifQ.eyJ9.{}",
]  # fmt: skip


@given(
    st.lists(st.tuples(st.sampled_from(FORMS), secrets, st.sampled_from(ORDINARY)), min_size=1),
    st.sampled_from([" ", "\n", "\t", " '", ' "', " (", ", "]),
)
def test_no_secret_survives(parts: list[tuple[str, str, str]], between: str) -> None:
    text = between.join(
        f"{ordinary}{between}{form.format(secret)}" for form, secret, ordinary in parts
    )
    shown = masked(text)
    assert not [secret for _, secret, _ in parts if secret in shown]


@given(st.text(st.sampled_from("ey.J:/@=?&% 'aA0bearertokn-_\n"), max_size=300))
def test_masking_twice_is_masking_once(text: str) -> None:
    assert masked(masked(text)) == masked(text)


@pytest.mark.parametrize(
    "piece",
    [
        *("eyJ", "eyJaaaaaaaa.", "eyJhbGciOiJS", "a.", "QUJD", "://", "://u:@", "@", "a@"),
        *("bearer ", "Bearer", "bearer=", "token", "token=", "secret_", "?sig", "%26", "%253d"),
        *("authorization:", "Authorization: Bearer ", "\" : '", "=", ":", " ", "x"),
    ],
)  # fmt: skip
def test_the_time_is_that_of_the_length(piece: str) -> None:
    def seconds(length: int) -> float:
        # With a hint in front, nothing is passed over because nothing secret can be in it.
        text = "token " + piece * (length // len(piece))
        start = time.process_time()
        masked(text)
        return time.process_time() - start

    half, whole = seconds(200_000), seconds(400_000)
    assert whole < 4 * half + 0.5  # what is quadratic takes minutes
    assert whole < 5


def test_an_error_of_a_hundred_megabytes() -> None:
    start = time.process_time()
    shown = failures.one_line(ValueError("eyJ" * 30_000_000 + " https://me:S3cr3t@host"))
    assert time.process_time() - start < 10
    assert len(shown) == 600


SECRETS = f"GET https://me:S3cr3t@host/a?authz=S3cr3t&x=1 {TOKEN} Bearer S3cr3t"


def test_notes_and_what_earlier_attempts_died_of(tmp_path: Path) -> None:
    note = failures.Failure(rule="r", key="a/b", record="x", problem=SECRETS, fix=SECRETS)
    failures.note(tmp_path, note)
    path = failures.path_of(tmp_path, "r", "a/b")
    assert "S3cr3t" not in path.read_text()
    # One that a worker has sent, of a release that did not do it:
    content = {**json.loads(path.read_text()), "problem": SECRETS}
    content["earlier"] = [
        {"problem": SECRETS, "attempt": 1, "pool": None, "host": None, "kind": "error"}
    ]
    path.write_text(json.dumps(content))
    found = failures.earlier(tmp_path, "r", "a/b")
    assert [one["attempt"] for one in found] == [1, 1]
    assert "S3cr3t" not in f"{found} {failures.read_all(tmp_path)}"
    assert TOKEN not in f"{found} {failures.read_all(tmp_path)}"


def test_what_snakemake_says() -> None:
    reader = Reader(None)
    reader.line(f"Traceback: {SECRETS}")
    assert "S3cr3t" not in str(reader.tail)


@pytest.mark.parametrize(
    "record",
    [
        {
            "msg": "Error in rule r",
            "event": LogEvent.JOB_ERROR,
            "jobid": 4,
            "rule_name": "r",
            "log": ["r.log"],
            "rule_msg": f"SLURM sbatch failed. The error message was '{SECRETS}'.",
            "indent": False,
        },
        {
            "msg": SECRETS,
            "event": LogEvent.GROUP_ERROR,
            "aux_logs": ["group.log"],
            "job_error_info": [],
        },
    ],
)
def test_what_snakemake_reports(record: dict[str, object]) -> None:
    event = event_of(logging.makeLogRecord(record))
    assert event is not None
    assert "S3cr3t" not in to_line(event)


def test_messages() -> None:
    assert "S3cr3t" not in str(RunFailed(SECRETS))
    assert "S3cr3t" not in str(Findings.one(SECRETS, value=SECRETS, hint=SECRETS))


def test_the_traceback_of_a_process(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> int:
        raise ValueError(SECRETS)

    assert exit_status(fails) == 1
    shown = capsys.readouterr().err
    assert "ValueError: GET https://me:<password>@host/a?authz=<token>&x=1 <token>" in shown
    assert "S3cr3t" not in shown
