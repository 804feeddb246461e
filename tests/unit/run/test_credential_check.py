"""Before a run: what is refused, and what is only said."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fasthep_smk.config.credentials import Requirement
from fasthep_smk.config.requests import Attempt, ResourceRequest, Route
from fasthep_smk.config.site import Site
from fasthep_smk.plan.rules import Bundle, Job, Rule
from fasthep_smk.run import credential_check
from fasthep_smk.run.credential_check import check
from fasthep_smk.run.credential_need import concerns, explaining
from fasthep_smk.storage.task_table import Read
from fasthep_smk.translate.profile import Placement
from fasthep_smk.util.errors import Findings
from tests.support.credentials import secret_parts, token, write

TOKEN = Requirement("token", file="w.yaml", key="execution.credentials.token")


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the token would be; there is no other credential."""
    monkeypatch.delenv("BEARER_TOKEN", raising=False)
    monkeypatch.setenv("BEARER_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("X509_USER_PROXY", str(tmp_path / "proxy"))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(credential_check, "_NOT_SHARED", ("/no/such/folder",))
    return tmp_path / "token"


def rule(name: str, jobs: int, walltime: int | None, *reads: str, cpus: int = 1) -> Rule:
    attempt = Attempt("default", ResourceRequest(cpus=cpus, walltime=walltime))
    found = Rule(name, "partition", (), Route((attempt,)), ("part",))
    for number in range(jobs):
        job = Job(
            rule=name,
            wildcards={"part": str(number)},
            variation="nominal",
            dataset="d",
            partition=None,
            nodes=(),
            reads=tuple(Read(f"smk/work/{one}/0", ()) for one in reads),
            files=(),
            signature="s",
        )
        found.jobs[job.key] = job
    return found


def placed(
    rules: list[Rule], *required: Requirement, system: str = "slurm", **more: Any
) -> Placement:
    attempts = {one.name: one.route.attempts for one in rules}
    return Placement(Site(system), attempts=attempts, credentials=required, **more)


def refused(rules: list[Rule], placement: Placement, **more: Any) -> str:
    with pytest.raises(Findings) as error:
        check(rules, [], placement, **more)
    return str(error.value)


def test_nothing_is_required() -> None:
    assert check([], [], placed([])) == []


def test_a_missing_token() -> None:
    text = refused([], placed([], TOKEN))
    assert text.startswith("1 problem:\n- w.yaml: execution.credentials.token: there is no bearer ")
    assert "    hint: get a new token (htgettoken, oidc-token), and write it to a file" in text


def test_a_token_that_ends_too_early(file: Path) -> None:
    rules = [rule("a", 4, 3600), rule("b", 1, 1800, "a")]
    write(file, token(3600 - 60))
    placement = placed(rules, TOKEN, workers={"default": 2})
    text = refused(rules, placement)
    assert "the bearer token expires before the longest job may end" in text
    assert "when the longest job may end: it may take 01:00:00" in text
    assert "or add --allow-expiring: jobs then wait" in text
    (said,) = check(rules, [], placement, allow_expiring=True)
    assert said.startswith("the bearer token expires before the longest job may end")
    write(file, token(3600 + 60))
    assert check(rules, [], placement) == []


def test_a_job_that_is_done_needs_no_token(file: Path) -> None:
    rules = [rule("a", 4, 3600), rule("b", 1, 1800, "a")]
    write(file, token(3600 - 60))
    done = frozenset(job.folder for job in rules[0].jobs.values())
    assert check(rules, [], placed(rules, TOKEN), valid=done) == []


def test_a_bundle_has_the_time_of_all_its_jobs(file: Path) -> None:
    rules = [rule("a", 4, 1800)]
    rules[0].bundles = {"x": Bundle("a", ("x",), ("0", "1")), "y": Bundle("a", ("y",), ("2", "3"))}
    write(file, token(3600 - 60))
    assert "it may take 01:00:00" in refused(rules, placed(rules, TOKEN))


def test_allow_expiring_allows_nothing_else(file: Path) -> None:
    for text, mode in ((token(-1), 0o600), ("text", 0o600), (token(60), 0o644)):
        write(file, text, mode)
        refused([], placed([], TOKEN), allow_expiring=True)


def test_an_unknown_time(file: Path) -> None:
    rules = [rule("a", 4, None)]
    write(file, token(1200))
    (said,) = check(rules, [], placed(rules, TOKEN))
    assert said.startswith("the bearer token expires before the longest job may end")
    write(file, token(7200))
    assert check(rules, [], placed(rules, TOKEN)) == []


def test_a_token_in_a_variable_reaches_no_batch_system(monkeypatch: pytest.MonkeyPatch) -> None:
    text = token(3600)
    monkeypatch.setenv("BEARER_TOKEN", text)
    assert check([], [], placed([], TOKEN, system="local")) == []
    for system in ("slurm", "htcondor"):
        said = refused([], placed([], TOKEN, system=system))
        assert "the bearer token does not reach the jobs of a batch system" in said
        assert not any(part.decode() in said for part in secret_parts(text))


def test_a_token_that_nobody_requires_is_not_lost_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not concerns([], placed([]))
    monkeypatch.setenv("BEARER_TOKEN", token(3600))
    assert concerns([], placed([]))
    (said,) = check([], [], placed([]))
    assert said.startswith("jobs do not get the variable BEARER_TOKEN, because slurm")
    here = placed([], system="local")
    assert not concerns([], here)
    assert check([], [], here) == []


def test_a_file_that_workers_do_not_see(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(file, token(7200))
    monkeypatch.setattr(credential_check, "_NOT_SHARED", (str(tmp_path),))
    (said,) = check([], [], placed([], TOKEN))
    assert "which workers on other machines do not see" in said
    assert "set BEARER_TOKEN_FILE to its new path" in said
    assert check([], [], placed([], TOKEN, system="local")) == []


def reading(*files: str) -> list[Any]:
    plan = SimpleNamespace(context={"datasets": {"d": {"files": list(files)}}})
    return [SimpleNamespace(graph=SimpleNamespace(plan=plan))]


def test_what_nobody_requires_is_only_said(file: Path) -> None:
    write(file, token(-1))
    assert check([], reading("data/a.root", "/a:b"), placed([])) == []
    for url in ("root://x//a.root", "https://x/a.root"):
        (said,) = check([], reading("a.root", url), placed([]))
        assert said.startswith("the bearer token has expired (")
    file.unlink()
    assert check([], reading("root://x//a.root"), placed([])) == []


def test_findings_of_a_workflow_say_what_is_wrong_with_its_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Findings) as error, explaining([TOKEN]):
        raise Findings.one("root://x//a.root cannot be opened")
    assert [one.problem for one in error.value.findings] == [
        "there is no bearer token",
        "root://x//a.root cannot be opened",
    ]
