"""Mistakes that FAST-HEP accepts silently, and correct workflows that look like mistakes.

The cases stand in ``tests/mistakes``: each changes one workflow in some places.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.cli.main import main
from tests.support import cases, mistakes, unusual, warm, workshop
from tests.support.forms import LONG

pytestmark = pytest.mark.integration

FILES = sorted(path for path in mistakes.FOLDER.glob("*.yaml") if path.name != "workflow.yaml")
SPOILT = [path for path in FILES if path.stem != "as_it_is"]


def of_kind(kind: str) -> Iterator[Any]:
    for file, case in mistakes.cases(kind):
        marks = [LONG] if case.get("long") else []
        yield pytest.param(case, marks=marks, id=f"{file}-{case['name'].replace(' ', '_')}")


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mistakes.make_data(tmp_path_factory.mktemp("mistakes"))


def check(
    case: dict[str, Any],
    data: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> tuple[int, str]:
    """Return the status of `fasthep-smk check`, and what it says."""
    mistakes.write(case, data, folder)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    capfd.readouterr()
    status = main(["check", "workflow.yaml"])
    said = capfd.readouterr()
    return status, said.out + said.err


@pytest.mark.parametrize("case", list(of_kind("wrong")))
def test_a_mistake_is_refused_and_named_once(
    case: dict[str, Any],
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    status, said = check(case, data, tmp_path, monkeypatch, capfd)
    assert status == 1, said
    for text in case["says"]:
        assert text in said, said
    count = case.get("problems", 1)
    assert len(re.findall(r"^- ", said, re.M)) == count, said
    lines = len(re.findall(r"^    at: .+, line", said, re.M))
    assert lines == case.get("lines", count), said


@pytest.mark.parametrize("case", list(of_kind("right")))
def test_what_is_unusual_and_right_is_not_refused(
    case: dict[str, Any],
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    status, said = check(case, data, tmp_path, monkeypatch, capfd)
    assert (status, "ready to run" in said) == (0, True), said


@pytest.mark.parametrize("case", list(of_kind("warned")))
def test_what_may_be_wrong_is_a_warning(
    case: dict[str, Any],
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    status, said = check(case, data, tmp_path, monkeypatch, capfd)
    assert (status, "ready to run" in said) == (0, True), said
    (warning,) = [line for line in said.splitlines() if "warning: " in line]
    for text in case["says"]:
        assert text in warning, said


@LONG
@pytest.mark.parametrize("kind", ["wrong", "right"])
@pytest.mark.parametrize("path", SPOILT, ids=lambda path: path.stem)
def test_fasthep_run_fails_where_a_mistake_is_not_silent(
    path: Path, kind: str, data: Path, tmp_path: Path
) -> None:
    """What FAST-HEP takes without an error is `silent`: no run of it shows the mistake."""
    known = yaml.safe_load(path.read_text()).get(kind) or []
    known = [case for case in known if not case.get("gpu")]  # there may be none here
    differing = []
    for number, case in enumerate(random.sample(known, min(10, len(known)))):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        mistakes.write(case, data, folder)
        env = unusual.environment(folder)
        command = ["run", "workflow.yaml", "--outdir", "build"]
        # An operation may end its process, whose status a warm one would not have.
        done = warm.run(*command, cwd=folder, env=env, program=warm.FASTHEP, cold=True)
        silent = kind == "right" or case.get("silent", False)
        if (done.returncode == 0) != silent:
            differing.append((case["name"], done.returncode, done.stderr[-500:]))
    assert not differing


def test_files_that_lie_beside_the_workflow_are_found_from_its_folder_alone(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "data").symlink_to(data)
    (tmp_path / "mine" / "workflow.yaml").write_text(yaml.safe_dump(mistakes.BASE))
    monkeypatch.chdir(tmp_path)
    assert main(["check", "mine/workflow.yaml"]) == 1
    said = capfd.readouterr().err
    assert (
        "it is next to the workflow, but paths start in the folder that you run in: cd mine" in said
    )
    assert len(re.findall(r"    at: mine/workflow.yaml, line \d+", said)) == 3


OURS = [one for one in cases.CASES if not one.name.startswith("workshop_")]


@pytest.mark.parametrize("case", OURS, ids=lambda one: one.name)
def test_no_workflow_of_the_tests_is_refused(
    case: cases.Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["check", "workflow.yaml", *case.options]) == 0


@pytest.mark.parametrize("name", workshop.EXAMPLES)
def test_nothing_is_said_of_the_examples_of_fasthep(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    workshop.prepare(name, tmp_path)
    monkeypatch.chdir(tmp_path)
    capfd.readouterr()
    assert main(["check", "workflow.yaml"]) == 0
    said = capfd.readouterr()
    assert (said.out.count("\n"), "ready to run" in said.out, said.err) == (1, True, ""), said.out
