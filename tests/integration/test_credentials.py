"""Runs that need a credential: refused without, held back while it has ended, gone on with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from tests.integration.conftest import Run
from tests.support import credentials
from tests.support.asking import change, with_asking
from tests.support.tokens import token_server

pytestmark = pytest.mark.integration

#: Seconds that the first token lasts: time enough to compile the workflow.
LIFE = 15


@pytest.fixture
def server() -> Iterator[tuple[str, list[int]]]:
    """The address of a server that wants a valid token, and what it has answered."""
    with token_server() as found:
        yield found


@pytest.fixture
def needy(analysis: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small analysis, which requires a token; ``token`` would be its file."""
    for name in ("BEARER_TOKEN", "XDG_RUNTIME_DIR", "X509_USER_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BEARER_TOKEN_FILE", str(analysis / "token"))
    change(analysis, lambda workflow: workflow.update(execution={"credentials": ["token"]}))
    return analysis


def tries(folder: Path) -> list[list[str]]:
    file = folder / "tries.txt"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def wait_for(condition: Callable[[], Any], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def records(folder: Path) -> list[dict[str, Any]]:
    """Return the records of the partitions' jobs."""
    found = [
        json.loads(path.read_text()) for path in (folder / "build/smk/work").rglob("record.json")
    ]
    return [one for one in found if one["key"].count("/")]


def test_jobs_wait_for_a_renewed_token(needy: Path, server: tuple[str, list[int]]) -> None:
    address, answers = server
    first = credentials.token(LIFE)
    end = jwt.decode(first, options={"verify_signature": False})["exp"]
    credentials.write(needy / "token", first)
    with_asking(needy, address, end + 0.2)
    output = needy / "said.txt"
    with output.open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "fasthep_smk", "workflow.yaml", "-j", "2", "--bundle", "1"],
            cwd=needy,
            stdout=said,
            stderr=said,
        )
    try:
        wait_for(lambda: "jobs wait until you renew it" in output.read_text() or process.poll(), 60)
        assert process.poll() is None, output.read_text()
        wait_for(lambda: 401 in answers, 20)
        time.sleep(3)  # a job that is not held back would start now
        assert sorted(name for name, *_ in tries(needy)) == ["early", "late"]
        log = (needy / "build/debug/distributed/snakemake.log").read_text()
        assert log.count("\nlocalrule stages_Ask_to_Met:") == 2  # Snakemake has started no other
        at_home = [needy / "token"]
        assert not credentials.scan([needy], credentials.secret_parts(first), spared=at_home)
        second = credentials.token(3600)
        renewed = time.time()
        credentials.write(needy / "token", second)
        assert process.wait(90) == 0, output.read_text()
    finally:
        if process.poll() is None:
            process.kill()
    text = output.read_text()
    assert text.count(f"the bearer token ({needy / 'token'}) expired at ") == 1, text
    assert text.count("the bearer token was renewed and is valid until ") == 1, text
    began = {name: [float(when) for one, _, when in tries(needy) if one == name] for name in
             ("late", "early", "rest")}  # fmt: skip
    assert len(began["late"]) == 2
    assert len(began["early"]) == len(began["rest"]) == 1
    assert began["late"][1] > renewed
    assert began["rest"][0] > renewed
    assert answers.count(401) == 1
    done = records(needy)
    assert len(done) == 3
    assert {(one["attempt"], len(one["earlier"])) for one in done} == {(1, 0)}
    secrets = [*credentials.secret_parts(first), *credentials.secret_parts(second)]
    assert not credentials.scan([needy], secrets, spared=[needy / "token"])


def test_the_scan_finds_what_is_there(tmp_path: Path) -> None:
    import zipfile

    text = credentials.token(60)
    parts = credentials.secret_parts(text)
    assert not credentials.scan([tmp_path], parts)
    (tmp_path / "log").write_text(f"GET {text}")
    assert credentials.scan([tmp_path], parts) == str(tmp_path / "log")
    assert not credentials.scan([tmp_path], parts, spared=[tmp_path / "log"])
    (tmp_path / "log").unlink()
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("in", text)
    assert credentials.scan([tmp_path], parts) == str(tmp_path / "a.zip")
    (tmp_path / "a.zip").unlink()
    with subprocess.Popen(["sh", "-c", "sleep 60; :", text]) as process:
        wait_for(lambda: text in Path(f"/proc/{process.pid}/cmdline").read_text(), 10)
        assert credentials.scan([tmp_path], parts) == f"/proc/{process.pid}/cmdline"
        process.kill()


def test_a_run_without_its_token_is_refused(needy: Path, smk: Run) -> None:
    for command in (["workflow.yaml"], ["check", "workflow.yaml"]):
        done = smk(*command, cwd=needy)
        assert done.returncode == 1
        assert "workflow.yaml: execution.credentials.token: there is no bearer token" in done.stderr
        assert "Traceback" not in done.stderr
    assert not list((needy / "build").rglob("record.json"))
    credentials.write(needy / "token", credentials.token(-60))
    done = smk("check", "workflow.yaml", cwd=needy)
    assert done.returncode == 1
    assert "execution.credentials.token: the bearer token has expired" in done.stderr
    credentials.write(needy / "token", credentials.token(3600), mode=0o644)
    done = smk("check", "workflow.yaml", cwd=needy)
    assert done.returncode == 1
    assert "others may read the bearer token" in done.stderr
    assert f"chmod 600 {needy / 'token'}" in done.stderr
    (needy / "token").chmod(0o600)
    assert smk("check", "workflow.yaml", cwd=needy).returncode == 0


def test_a_token_that_does_not_last(needy: Path, smk: Run) -> None:
    """Jobs of an hour, one at a time: it has to last for one of them."""
    pools = {"default": {"workers": 1, "config": {"walltime": "01:00:00"}}}
    change(needy, lambda workflow: workflow["execution"].update(pools=pools))
    credentials.write(needy / "token", credentials.token(0.9 * 3600))
    done = smk("check", "workflow.yaml", "--bundle", "1", cwd=needy)
    assert done.returncode == 1
    assert "the bearer token expires before the longest job may end" in done.stderr
    assert "it may take 01:00:00" in done.stderr
    assert "--allow-expiring" in done.stderr
    done = smk("check", "workflow.yaml", "--bundle", "1", "--allow-expiring", cwd=needy)
    assert done.returncode == 0
    assert "warning: the bearer token expires before the longest job may end" in done.stderr
    credentials.write(needy / "token", credentials.token(1.1 * 3600))
    done = smk("check", "workflow.yaml", "--bundle", "1", cwd=needy)
    assert done.returncode == 0
    assert "warning" not in done.stderr


def test_a_refused_token_is_said_to_be_one(
    needy: Path, server: tuple[str, list[int]], smk: Run
) -> None:
    """A valid token that the server does not take: waiting would not help."""
    with_asking(needy, server[0], 0)
    wrong = credentials.token(3600, key="another issuer's key, which the server does not know")
    credentials.write(needy / "token", wrong)
    done = smk("workflow.yaml", "-j", "2", "--accept-missing", "2", cwd=needy)
    assert done.returncode == 1
    assert "a server refused its credential: " in done.stderr
    assert "    fix:       check that the credential is right for this server" in done.stderr
    # With the right credential, nothing would be missing.
    assert "the run goes on without" not in done.stderr
    notes = (needy / "build/smk/failures").rglob("*.json")
    assert {json.loads(path.read_text())["kind"] for path in notes} == {"credential"}
    parts = credentials.secret_parts(wrong)
    assert not credentials.scan([needy], parts, spared=[needy / "token"])


def test_a_stopped_run_does_not_wait(needy: Path, server: tuple[str, list[int]]) -> None:
    import signal

    credentials.write(needy / "token", credentials.token(LIFE))
    with_asking(needy, server[0], time.time() + LIFE)
    process = subprocess.Popen(
        [sys.executable, "-m", "fasthep_smk", "workflow.yaml", "-j", "2", "--bundle", "1"],
        cwd=needy,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        if "jobs wait" in line:
            time.sleep(3)
            process.send_signal(signal.SIGINT)
            break
    text += process.stdout.read()
    assert process.wait(30) == 130, text
    held = {int(pid) for _, pid, _ in tries(needy)}
    assert not [pid for pid in held if Path(f"/proc/{pid}").exists()]


@pytest.mark.long
def test_jobs_of_a_bundle_wait_too(needy: Path, server: tuple[str, list[int]]) -> None:
    """Also cold ones: with no fork server they are started otherwise."""
    address, answers = server
    first = credentials.token(LIFE)
    end = jwt.decode(first, options={"verify_signature": False})["exp"]
    credentials.write(needy / "token", first)
    with_asking(needy, address, end + 0.2)
    with (needy / "said.txt").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "fasthep_smk", "workflow.yaml", "-j", "1", "--bundle", "3"],
            cwd=needy,
            stdout=said,
            stderr=said,
            env={**os.environ, "FASTHEP_SMK_FORK_SERVER": ""},
        )
    try:
        wait_for(lambda: 401 in answers or process.poll() is not None, 60)
        credentials.write(needy / "token", credentials.token(3600))
        assert process.wait(60) == 0, (needy / "said.txt").read_text()
    finally:
        if process.poll() is None:
            process.kill()
    assert [name for name, *_ in tries(needy)].count("late") == 2
    assert len(tries(needy)) == 4
    assert {(one["attempt"], len(one["earlier"])) for one in records(needy)} == {(1, 0)}
    assert not list((needy / "build/smk/failures").rglob("*.json"))


def test_nothing_secret_is_written(needy: Path, smk: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token in the environment, and a proxy in a file."""
    text, (pem, _) = credentials.token(3600), credentials.proxy(10, 900)
    monkeypatch.setenv("BEARER_TOKEN", text)
    monkeypatch.setenv("X509_USER_PROXY", str(credentials.write(needy / "proxy", pem)))
    change(needy, lambda workflow: workflow["execution"]["credentials"].append("x509"))
    done = smk("workflow.yaml", "-j", "2", cwd=needy)
    assert done.returncode == 0, done.stderr
    doctor = smk("doctor", "workflow.yaml", cwd=needy)
    assert doctor.returncode == 0, doctor.stdout
    assert "X509 proxy, required" in doctor.stdout
    shown = smk("explain", "workflow.yaml", cwd=needy).stdout
    assert "Required: X509 proxy (workflow.yaml: execution.credentials.x509)" in shown
    (needy / "said.txt").write_text(done.stdout + done.stderr + doctor.stdout + doctor.stderr)
    secrets = [*credentials.secret_parts(text), *credentials.secret_parts(pem)]
    assert not credentials.scan([needy], secrets, spared=[needy / "proxy"])
    # What is required is in no result.
    change(needy, lambda workflow: workflow["execution"]["credentials"].remove("x509"))
    again = smk("workflow.yaml", "-j", "2", cwd=needy)
    assert "everything was up to date" in again.stdout


@pytest.mark.long
def test_plain_snakemake_runs_it_too(needy: Path, smk: Run) -> None:
    credentials.write(needy / "token", credentials.token(3600))
    assert smk("translate", "workflow.yaml", cwd=needy).returncode == 0
    command = [sys.executable, "-m", "snakemake", "--profile", "build/smk/profile"]
    credentials.write(needy / "token", credentials.token(-1))
    done = subprocess.run(command, cwd=needy, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 1, done.stderr
    notes = [json.loads(path.read_text()) for path in needy.rglob("build/smk/failures/**/*.json")]
    assert {note["kind"] for note in notes} == {"credential"}
    assert all(note["fix"].startswith("get a new token") for note in notes)
    credentials.write(needy / "token", credentials.token(3600))
    done = subprocess.run(command, cwd=needy, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
