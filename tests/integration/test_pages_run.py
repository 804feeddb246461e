"""What the pages tell to type, typed, where a first analysis has been run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support import warm
from tests.support.pages import ROOT, Block, blocks, commands, pages

pytestmark = pytest.mark.integration

#: What is not typed here, and why.
NOT_HERE = {
    r"--profile (slurm|my_cluster)|site init (slurm|htcondor)": "a batch system",
    r"fasthep-smk pack": "minutes; tests/unit/transfer/environment does it",
    r"-j 8": "eight cores",
    r"-- -|completion": "tests of their own",
    r"MY_|SITE|FOLDER|BUILD": "a name to be filled in",
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
            line = shlex.join(words)
            if words[0] in ("fasthep-smk", "fasthep", "snakemake"):
                found.setdefault(line, block)
    return {
        line: block
        for line, block in found.items()
        if not any(re.search(pattern, line) for pattern in NOT_HERE)
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a first analysis that was run, and other files that pages speak of."""
    folder = tmp_path_factory.mktemp("typed")
    for arguments in (["init"], ["workflow.yaml", "-j", "2"]):
        done = warm.run(*arguments, cwd=folder)
        assert done.returncode == 0, done.stderr
    (folder / "file.root").symlink_to("data/data_0.root")
    return folder


@pytest.mark.parametrize("line", typed())
def test_a_command(folder: Path, tmp_path: Path, line: str) -> None:
    program, *arguments = shlex.split(line)
    if arguments[0] == "init":
        (tmp_path / "file.root").symlink_to(folder / "file.root")
        folder = tmp_path
    if program == "fasthep-smk":
        done = warm.run(*arguments, cwd=folder)
    else:
        command = [str(Path(sys.executable).parent / program), *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{typed()[line]}: {done.stderr}"


def is_whole(block: Block) -> bool:
    """Whether a block is a workflow that could be run."""
    content = yaml.safe_load(block.text) if block.language == "yaml" else {}
    return {"data", "analysis"} <= set(content)


@pytest.mark.parametrize("block", filter(is_whole, BLOCKS), ids=str)
def test_a_whole_workflow(folder: Path, block: Block) -> None:
    (folder / "of_a_page.yaml").write_text(block.text)
    checked = warm.run("check", "of_a_page.yaml", cwd=folder)
    assert checked.returncode == 0, checked.stderr
