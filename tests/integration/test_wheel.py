"""What comes with the package where it is installed from a wheel, without the repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from fasthep_smk.util.names import shell
from tests.support.forms import some

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


def call(installed: Path, folder: Path, *words: str) -> str:
    environment = {"HOME": str(folder), "PATH": f"{installed / 'bin'}:/usr/bin:/bin"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{shell(words)}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize(
    ("name", "system"), [("local", "local"), ("slurm", "slurm"), ("cern-lxbatch", "htcondor")]
)
def test_a_profile_of_ours_is_found_by_its_name(
    installed: Path, tmp_path: Path, name: str, system: str
) -> None:
    call(installed, tmp_path, "fasthep-smk", "init")
    told = call(installed, tmp_path, "fasthep-smk", "explain", "workflow.yaml", "--profile", name)
    assert f"Site: {system} (--profile {name})" in told
    assert ("longlunch" in told) == (name == "cern-lxbatch")


def test_the_manual_page_is_found(installed: Path) -> None:
    page = installed / "share/man/man1/fasthep-smk.1"
    assert page.read_text() == (ROOT / "man/fasthep-smk.1").read_text()


def test_the_command_of_fast_hep_comes_with_it(installed: Path) -> None:
    (found,) = installed.glob("lib/python*/site-packages/fasthep_smk-*.dist-info/METADATA")
    assert "Requires-Dist: fasthep-cli" in found.read_text()
    scripts = metadata.distribution("fasthep-cli").entry_points.select(group="console_scripts")
    assert "fasthep" in scripts.names


def test_the_version_is_that_of_the_wheel(installed: Path, tmp_path: Path) -> None:
    (wheel,) = (installed.parent / "dist").glob("*.whl")
    version = wheel.name.split("-")[1]
    assert call(installed, tmp_path, "fasthep-smk", "--version") == f"fasthep-smk {version}\n"
    ask = "import fasthep_smk; print(fasthep_smk.__version__)"
    assert call(installed, tmp_path, "python", "-c", ask) == f"{version}\n"


@pytest.mark.parametrize(
    ("tag", "version"),
    some([("v1.2.3", r"1\.2\.3"), (None, r"0\.1\.0\.dev1\+g\w+"), ("", r"0\.1\.0\.dev0")], 1),
)
def test_the_version_is_that_of_the_tag(tmp_path: Path, tag: str | None, version: str) -> None:
    """Without a tag it is that of a commit; without git, what is written down for that."""
    clone = tmp_path / "clone"
    kept = shutil.ignore_patterns(".*", "build", "dist", "workflow", "tests", "docs")
    shutil.copytree(ROOT, clone, ignore=kept)
    git = ["git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    if tag != "":
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "All"]):
            subprocess.run([*git, *words], check=True)
    if tag:
        subprocess.run([*git, "tag", tag], check=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "wheel"]
    made = tmp_path / "made"
    subprocess.run([*pip, "--no-deps", "-w", str(made), str(clone)], check=True)
    (wheel,) = made.glob("*.whl")
    assert re.fullmatch(version, wheel.name.split("-")[1])


def test_nothing_of_the_repository_is_needed(installed: Path, tmp_path: Path) -> None:
    where = call(
        installed, tmp_path, "python", "-c", "import fasthep_smk as one; print(one.__file__)"
    )
    assert os.path.commonpath([where, installed]) == str(installed)
