"""Environments that rattler installs from conda packages, packed, on a machine without Python.

The packages are made here (``tests/support/conda.py``): no channel of others can be reached.
"""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import boost_histogram
import pytest

from fasthep_smk.contrib.pack.archive import write_archive
from fasthep_smk.contrib.pack.conda import CondaContents
from fasthep_smk.contrib.pack.entries import Entry, text_entry
from tests.integration.test_environment import Machine, make_machine
from tests.support.compare import compare_builds
from tests.support.conda import PLACEHOLDER, Channel, conda_environment, needed
from tests.support.project import Project, make_project

pytestmark = pytest.mark.integration

#: What each of them needs to be as it was: scripts, a variable, a path in a text and in a binary.
LOOK = """\
import ctypes, os, subprocess, sys
print(sys.prefix, os.environ["CONDA_PREFIX"], os.environ["HEP_DATA"])
print(open(os.environ["HEP_DATA"] + "/where").read().strip())
print(subprocess.run(["hep-tool"], stdout=subprocess.PIPE, text=True, check=True).stdout)
"""


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Channel:
    """Python, and a package with a script to activate, a text, and a program behind a link."""
    folder = tmp_path_factory.mktemp("channel")
    (folder / "work").mkdir()
    made = Channel(folder / "channel")
    made.add_python(folder / "work")
    tool = f"#!{PLACEHOLDER}/bin/python\nimport os\nprint(os.path.realpath(__file__))\n"
    hep = [
        text_entry("etc/conda/activate.d/hep.sh", 'export HEP_DATA="$CONDA_PREFIX/share/hep"\n'),
        text_entry("share/hep/where", f"{PLACEHOLDER}/share/hep\n"),
        text_entry("libexec/hep/tool", tool, executable=True),
        Entry("bin/hep-tool", link="../libexec/hep/tool"),
    ]
    made.add("hep-tools", "1.0", hep, depends=["python"])
    return made


def bare_machine(place: Path, archive: Path) -> Machine:
    """Of this machine's release: conda environments take their C library from the machine."""
    release = platform.freedesktop_os_release().get("VERSION_CODENAME", "?")
    return make_machine(place, archive, release)


def looks_right(machine: Machine) -> None:
    root = f"/outside/tmp/fasthep-smk-1234/{machine.archive.stem.rpartition('-')[2]}"
    done = machine.run("-c", LOOK)
    assert done.returncode == 0, done.stderr
    hep = f"{root}/share/hep"
    assert done.stdout.split() == [root, root, hep, hep, f"{root}/libexec/hep/tool"]


def test_all_that_names_the_prefix_is_set_right_elsewhere(
    channel: Channel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where pixi would put it, and without the packages: ``conda clean`` removes them."""
    prefix = tmp_path / ".pixi/envs/default"
    conda_environment(channel, prefix, tmp_path / "cache", "hep-tools")
    shutil.rmtree(tmp_path / "cache")
    importlib.import_module("conda_pack.core")  # it is not in that prefix
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "-packages" not in path])
    contents = CondaContents("packed-pixi", ("json",), prefix)
    archive = tmp_path / f"{contents.kind}-{contents.key}.run"
    write_archive(contents.parts(), archive)
    looks_right(bare_machine(tmp_path, archive))


@pytest.mark.long
def test_a_whole_analysis_gives_the_same_results_there(
    channel: Channel, installed: Path, tmp_path: Path
) -> None:
    (site,) = installed.glob("lib/python*/site-packages")
    (ours,) = distributions(name="fasthep-smk", path=[str(site)])
    for found in needed(ours):
        channel.add_distribution(found)
    channel.add_libraries("libstdcxx", Path(boost_histogram._core.__file__))
    prefix, project = tmp_path / "prefix", make_project(tmp_path / "project")
    specs = ("fasthep-smk", "libstdcxx", "hep-tools")
    conda_environment(channel, prefix, tmp_path / "cache", *specs)
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", prefix / "bin/python", "install"]
    subprocess.run([*pip, "conda-pack"], check=True)
    done = subprocess.run(
        [prefix / "bin/fasthep-smk", "pack", "workflow.yaml", "--output", tmp_path],
        cwd=project.folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.glob("packed-conda-*.run")
    prefix.rename(tmp_path / "gone")
    machine = bare_machine(tmp_path, archive)
    looks_right(machine)
    shutil.copytree(project.folder, machine.folder / "analysis")
    for path in (machine.folder / "analysis", *(machine.folder / "analysis").rglob("*")):
        os.chown(path, 1234, 1234)
    done = machine.run("-m", "fasthep_smk", "workflow.yaml", "-j", "2", cwd="/outside/analysis")
    assert done.returncode == 0, done.stderr
    here = Project(project.folder)
    here.run()
    assert compare_builds(here.build, machine.folder / "analysis" / "build") == []
