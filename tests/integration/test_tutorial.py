"""Tutorial and README, done as their readers do: from a wheel, with an empty home."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.forms import LONG

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/tutorial.md").read_text()
CLUSTER = "## On a cluster"


def steps(text: str) -> list[tuple[str, str]]:
    """Return the commands, and the edits, in their order."""
    found = re.findall(r"```(sh|diff)\n(.*?)```", text, re.DOTALL)
    return [
        (kind, step)
        for kind, block in found
        for line in (block.splitlines() if kind == "sh" else [block])
        for step in (line.split(" && ") if kind == "sh" else [line])
    ]


def test_it_takes_no_more_than_ten_commands() -> None:
    assert len([kind for kind, _ in steps(PAGE) if kind == "sh"]) <= 10


def test_its_commands_are_ones_that_there_are() -> None:
    from fasthep_smk.cli.parser import parse

    for kind, line in steps(PAGE):
        words = shlex.split(line) if kind == "sh" else []
        if words[:1] == ["fasthep-smk"]:
            parse(words[1:])


def follow(text: str, installed: Path, home: Path) -> tuple[Path, list[str]]:
    """Do the steps of a page, in an empty home; return the last folder, and what commands said."""
    home.mkdir()
    environment = {"HOME": str(home), "PATH": f"{installed / 'bin'}:/usr/bin:/bin"}
    folder, said = home, []
    for kind, step in steps(text):
        if kind == "diff":
            old, new = (line[1:] for line in step.splitlines())
            content = (folder / "workflow.yaml").read_text()
            assert old in content
            (folder / "workflow.yaml").write_text(content.replace(old, new))
            continue
        words = shlex.split(step, comments=True)
        if words[:1] == ["pip"]:
            assert words[1:] == ["install", "."]
        elif words[:1] == ["cd"]:
            folder = folder / words[1]
        elif words:
            done = subprocess.run(
                words, cwd=folder, env=environment, capture_output=True, text=True
            )
            assert done.returncode == 0, f"{step}\n{done.stdout}\n{done.stderr}"
            said.append(done.stdout)
    assert str(ROOT) not in "".join(said), "nothing is taken from the clone"
    return folder, said


@pytest.mark.parametrize("where", ["installed", pytest.param("installed_alone", marks=LONG)])
def test_every_command_up_to_the_cluster(
    where: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """``installed_alone`` has no package but those that the wheel asks for."""
    installed: Path = request.getfixturevalue(where)
    folder, said = follow(PAGE.partition(CLUSTER)[0], installed, tmp_path / "home")
    assert (folder / "build/artifacts/plots/mass.png").is_file()
    _, first, why, second, ops = said
    assert "13 jobs done" in first
    assert "5 of 13 jobs" in why
    assert "stages_Selection_to_Mass" in why
    assert "nbins 30 → 60" in why
    assert "5 jobs done" in second
    assert "axes" in ops


def test_the_commands_of_the_readme(installed: Path, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    here, on_a_cluster, _ = readme.partition("fasthep-smk workflow.yaml --profile")
    assert on_a_cluster
    folder, (_, run, why) = follow(f"{here}\n```\n", installed, tmp_path / "home")
    assert "13 jobs done" in run
    assert "nothing" in why.lower() or "up to date" in why
    assert (folder / "build/artifacts/plots/mass.png").is_file()
