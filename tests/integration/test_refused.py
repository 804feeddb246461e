"""A refused command changes nothing in a build folder, and makes none."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.cli.main import main
from fasthep_smk.storage.unchanged import unless_accepted
from tests.support import mistakes
from tests.support.project import Project

pytestmark = pytest.mark.integration

#: The lock, a cache of what input files hold, what Snakemake notes of its own runs, and digests of
#: environment variables: pytest sets one for each test.
NOTES = ("smk/lock", "smk/cache", ".snakemake", "smk/environment.json")
Document = dict[str, Any]


def tree(build: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of every file."""
    return {
        name: (path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(build.rglob("*"))
        if path.is_file() and not (name := str(path.relative_to(build))).startswith(NOTES)
    }


def misspelt_key(document: Document) -> list[str]:
    document["analysis"]["stages"][0]["parms"] = {}
    return []


def misspelt_variation(_document: Document) -> list[str]:
    return ["--variation", "met_upp"]


def unknown_operation(document: Document) -> list[str]:
    document["analysis"]["stages"][0]["op"] = "hep.defin"
    return []


def missing_file(document: Document) -> list[str]:
    document["data"]["datasets"][0]["files"] = ["data/other_name.root"]
    return []


def missing_branch(document: Document) -> list[str]:
    variables = document["analysis"]["stages"][0]["params"]["variables"]
    variables.append({"name": "Odd", "expr": "NoSuchBranch * 2"})
    return []


def unknown_pool(document: Document) -> list[str]:
    document["analysis"]["stages"][0]["execution"] = {"require": "gpuu"}
    return []


def unknown_profile(_document: Document) -> list[str]:
    return ["--profile", "slrum"]


def unknown_stage(_document: Document) -> list[str]:
    return ["--rerun", "Varss"]


MISTAKES = (
    misspelt_key, misspelt_variation, unknown_operation, missing_file, missing_branch, unknown_pool,
    unknown_profile, unknown_stage,
)  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("refused")
    (folder / "data").mkdir()
    mistakes.make_data(folder / "data")
    (folder / "workflow.yaml").write_text(yaml.safe_dump(mistakes.BASE, sort_keys=False))
    Project(folder).run("-q")
    (folder / "build/graph/own.txt").write_text("a note")
    return folder


@pytest.mark.parametrize("command", ["run", "-n", "why", "translate"])
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.__name__)
def test_a_refused_command_changes_nothing(
    mistake: Callable[[Document], list[str]],
    command: str,
    finished: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(finished)
    document = yaml.safe_load(yaml.safe_dump(mistakes.BASE))
    options = mistake(document)
    Path("wrong.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    before = tree(finished / "build")
    words = {"run": [], "-n": []}.get(command, [command])
    end = ["-n"] if command == "-n" else []
    assert main([*words, "wrong.yaml", *options, *end]) in (1, 2)
    assert tree(finished / "build") == before
    assert main([*words, "wrong.yaml", *options, *end, "-o", "new"]) in (1, 2)
    assert not Path("new").exists()


def test_what_a_killed_process_has_replaced_is_put_back(tmp_path: Path) -> None:
    (tmp_path / "smk/before/compile").mkdir(parents=True)
    (tmp_path / "smk/before/compile/plan.yaml").write_text("of the finished run")
    (tmp_path / "compile/new").mkdir(parents=True)
    (tmp_path / "compile/plan.yaml").write_text("half")
    (tmp_path / "compile/new/plan.yaml").write_text("of a variation")
    with unless_accepted(tmp_path):
        found = [path for path in tmp_path.glob("compile/**/*") if path.is_file()]
        assert [path.read_text() for path in found] == ["of the finished run"]
    assert not (tmp_path / "smk/before").exists()


def test_a_folder_that_is_a_link_is_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "smk").mkdir()
    (tmp_path / "compile").symlink_to(elsewhere)
    with pytest.raises(KeyError), unless_accepted(tmp_path):
        (tmp_path / "compile/plan.yaml").write_text("")
        raise KeyError
    assert (tmp_path / "compile").is_symlink()
    shutil.rmtree(elsewhere)
