"""What the pages tell to type, typed, where a first analysis has been run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml

from tests.support import warm
from tests.support.pages import ROOT, Block, blocks, commands, pages

pytestmark = pytest.mark.integration

#: What is not typed here, and why.
NOT_HERE = {
    r"--profile (slurm|htcondor|cern|my_)|--strategy slurm|site init": "a batch system",
    r"fasthep-smk pack": "minutes; tests/unit/contrib/pack does it",
    r"fasthep-smk retry": "a job in a queue; tests/clusters/test_earlier_jobs.py does it",
    r"fasthep-smk compare": "two runs; tests/unit/report/test_compare.py does it",
    r"^fasthep run .*--backend": "pools that FAST-HEP refuses; test_backend.py does it",
    r"-j 8": "eight cores",
    r"-- -|completion": "tests of their own",
}
BLOCKS = [
    one
    for page in pages()
    if page.parent in (ROOT, ROOT / "docs") and page.name != "CONTRIBUTING.md"
    for one in blocks(str(page.relative_to(ROOT)), page.read_text())
]


def typed() -> dict[str, Block]:
    """Return the commands of all pages that can be typed here, each with a place it stands at."""
    found: dict[str, Block] = {}
    for block in BLOCKS:
        for words in commands(block.text) if block.language == "sh" else ():
            if {"fasthep-smk", "fasthep", "snakemake"} & set(words[:2]):
                found.setdefault(shlex.join(words), block)
    return {
        line: block
        for line, block in found.items()
        if not any(re.search(pattern, line) for pattern in NOT_HERE)
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a first analysis that was run, and other files that pages speak of."""
    folder = tmp_path_factory.mktemp("typed")
    for arguments in (["init"], ["workflow.yaml", "-j", "2"], ["enable"]):
        done = warm.run(*arguments, cwd=folder)
        assert done.returncode == 0, done.stderr
    (folder / "file.root").symlink_to("data/data_0.root")
    (folder / "sizes.yaml").write_text(warm.run("sizes", "build", cwd=folder).stdout)
    own = [one for one in BLOCKS if one.page == "docs/own-snakefile.md"]
    for name, language in (("fit.py", "python"), ("Snakefile", "snakemake")):
        (text,) = (one.text for one in own if one.language == language)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("line", typed())
def test_a_command(folder: Path, tmp_path: Path, line: str) -> None:
    program, *arguments = shlex.split(line)
    if ">" in arguments:
        arguments = arguments[: arguments.index(">")]
    if arguments[0] == "init":
        (tmp_path / "file.root").symlink_to(folder / "file.root")
        folder = tmp_path
    if program == "fasthep-smk":
        done = warm.run(*arguments, cwd=folder)
    else:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        command = ["env", f"PATH={path}", program, *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{typed()[line]}: {done.stderr}"


@pytest.mark.long
def test_the_own_snakefile_makes_what_is_missing_or_old(folder: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(folder, project, symlinks=True, ignore=shutil.ignore_patterns("build"))
    assert warm.run("translate", "workflow.yaml", cwd=project).returncode == 0
    made = []
    for bins in ("nbins: 30", "nbins: 15"):
        workflow = (project / "workflow.yaml").read_text()
        (project / "workflow.yaml").write_text(workflow.replace("nbins: 30", bins))
        command = [sys.executable, "-m", "snakemake", "-c", "2"]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path}
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        made.append((project / "fit.json").stat().st_mtime_ns)
        assert json.loads((project / "fit.json").read_text())["events"] > 1000
    assert made[0] < made[1]


def problems_of_whole(folder: Path, found: list[Block]) -> list[str]:
    """Return what `check` says of those blocks that are whole workflows."""
    said = []
    for block in found:
        content = yaml.safe_load(block.text) if block.language == "yaml" else {}
        if {"data", "analysis"} <= set(content):
            (folder / "of_a_page.yaml").write_text(block.text)
            checked = warm.run("check", "of_a_page.yaml", cwd=folder)
            said += [f"{block}: {checked.stderr}"] if checked.returncode else []
    return said


def test_whole_workflows(folder: Path) -> None:
    # Those of the reference have files of their own: test_examples.py runs them.
    found = [one for one in BLOCKS if one.page != "docs/reference.md"]
    assert problems_of_whole(folder, found) == []


def test_a_whole_workflow_that_is_wrong(folder: Path) -> None:
    right = (folder / "workflow.yaml").read_text()
    assert problems_of_whole(folder, blocks("page.md", f"```yaml\n{right}```\n")) == []
    wrong = right.replace("NGood == 2", "NGod == 2")
    (found,) = problems_of_whole(folder, blocks("page.md", f"```yaml\n{wrong}```\n"))
    assert found.startswith("page.md:1: ")
    assert "NGod" in found


def test_results_in_python(folder: Path, tmp_path: Path) -> None:
    """The page on results is one session, in the folder of the first analysis."""
    session = [one for one in BLOCKS if (one.page, one.language) == ("docs/results.md", "python")]
    asked = """\
    assert list(results.histograms()) == ["Mass"]
    assert mass.axes.name == ("dataset", "mass")
    assert results.variations == ("nominal",)
    assert results.summary()["success"]
    assert simulation.sum().value > data.sum().value * 0.9 and len(coarse.axes[0]) == 15
    assert 0 < peak.value < data.sum().value
    assert before > after > 0
    assert not missing
    """
    (tmp_path / "session.py").write_text(
        "".join(one.text for one in session) + textwrap.dedent(asked)
    )
    command = [sys.executable, str(tmp_path / "session.py")]
    environment = {**os.environ, "MPLBACKEND": "agg"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Two good muons: 17837 of 20000, 89.2%" in done.stdout
    assert (folder / "my_mass.png").stat().st_size > 10_000
