"""Modules in the current folder: the user's own are found, what others put there does not run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from tests.integration.conftest import WORKFLOW
from tests.support.forms import some

pytestmark = pytest.mark.integration

#: Each would be imported if the current folder were searched first, or for what FAST-HEP can use.
PLANTED = ["numpy", "yaml", "awkward", "json", "logging", "sitecustomize", "usercustomize"]
OPTIONAL = ["fasthep_distributed", "fasthep_workshop"]
MINE = """
SPEC = {"name": "own.mine", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}


def run(*, stream, **_):
    return stream
"""
#: The small analysis without its plot, with one file of data: what is looked at are imports.
SMALL = WORKFLOW.replace(", data/data_1.root", "").replace(
    "      render: {style: met, when: final}\n", ""
)
AS_COMMAND = [str(Path(sys.executable).with_name("fasthep-smk"))]
AS_MODULE = [sys.executable, "-m", "fasthep_smk"]


@pytest.fixture
def project(tmp_path: Path, small_files: Path) -> Path:
    """A workflow that names the module ``mine`` beside it."""
    folder = tmp_path / "project"
    folder.mkdir(mode=0o755)
    (folder / "data").symlink_to(small_files)
    text = SMALL.replace("  - id: Vars\n", "  - {id: Mine, op: own.mine}\n    - id: Vars\n")
    registry = "registry: {transforms: {own.mine: {spec: 'mine:SPEC', impl: 'mine:run'}}}\n"
    (folder / "workflow.yaml").write_text(registry + text)
    (folder / "mine.py").write_text(writes("mine") + MINE)
    return folder


def writes(name: str) -> str:
    """Return a module's text that leaves a file of this name in its folder when it runs."""
    return f"import pathlib\npathlib.Path(__file__).with_name('RAN-{name}').touch()\n"


def ran(folder: Path) -> set[str]:
    return {path.name.removeprefix("RAN-") for path in folder.glob("RAN-*")}


def smk(command: list[str], folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = [*command, *arguments]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", some([AS_COMMAND, AS_MODULE], 1), ids=["command", "module"])
def test_what_is_planted_does_not_run(project: Path, command: list[str]) -> None:
    for name in PLANTED:
        (project / f"{name}.py").write_text(writes(name))
    done = smk(command, project, "workflow.yaml", "-j", "2")
    assert done.returncode == 0, done.stderr
    assert ran(project) == {"mine"}


@pytest.mark.parametrize("name", OPTIONAL)
@pytest.mark.parametrize("as_folder", [False, True])
def test_nothing_stands_in_for_a_package_of_fasthep(
    project: Path, name: str, as_folder: bool
) -> None:
    if find_spec(name) is not None:
        pytest.skip(f"{name} IS INSTALLED: not tested here")
    place = project / (f"{name}/__init__.py" if as_folder else f"{name}.py")
    place.parent.mkdir(exist_ok=True)
    place.write_text(writes(name))
    done = smk(AS_COMMAND, project, "check", "workflow.yaml")
    assert done.returncode == 1
    assert "1 problem:" in done.stderr
    assert f"{project / name}" in done.stderr
    assert "rename it" in done.stderr
    assert not list(project.rglob("RAN-*"))
    assert not (project / "build").exists()


#: How an installed library asks for ``bonus`` of its own accord.
ASKING = {
    "a library that it can use": "try:\n    import bonus\nexcept ImportError:\n    bonus = None\n",
    "one by a name in its code": """
import importlib
try:
    importlib.import_module("bonus")
except ImportError:
    pass
""",
    "one by a name of its own": """
import importlib
OPTIONAL = ("bonus", "others")
for name in OPTIONAL:
    try:
        importlib.import_module(name)
    except ImportError:
        pass
""",
    "a plug-in": """
import importlib, pkgutil
for one in pkgutil.iter_modules():
    if one.name.startswith("bon"):
        try:
            importlib.import_module(one.name)
        except ImportError:
            pass
""",
    "one that it looks for": """
import importlib.util
if importlib.util.find_spec("bonus"):
    import bonus
""",
}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Install a library of one module."""
    place = tmp_path / "site-packages"
    place.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(place))

    def install(name: str, text: str) -> None:
        (place / f"{name}.py").write_text(text)

    return install


@pytest.mark.parametrize("way", some(ASKING, 2))
def test_libraries_find_nothing_there(
    project: Path, install: Callable[[str, str], None], way: str
) -> None:
    install("lib_of_others", ASKING[way])
    (project / "bonus.py").write_text(writes("bonus"))
    (project / "mine.py").write_text(f"import lib_of_others\n{writes('mine')}{MINE}")
    done = smk(AS_COMMAND, project, "workflow.yaml", "-j", "2")
    assert done.returncode == 0, done.stderr
    assert ran(project) == {"mine"}
    assert f"the module 'bonus', but {project}/bonus.py is not imported" in done.stderr


#: How a library imports ``helper`` because it was told to: what it has, and what own code does.
TOLD = {
    "a name": (
        "import importlib\ndef load(name):\n    return importlib.import_module(name)\n",
        "lib_of_others.load('helper')",
    ),
    "a pickle": (
        "import pickle\ndef load(content):\n    return pickle.loads(content)\n",
        "lib_of_others.load(b'chelper\\nsame\\n.')",
    ),
    "a pickle in Python": (
        "import io, pickle\ndef load(content):\n"
        "    return pickle._Unpickler(io.BytesIO(content)).load()\n",
        "lib_of_others.load(b'chelper\\nsame\\n.')",
    ),
    "in a thread": (
        "import importlib\nfrom concurrent.futures import ThreadPoolExecutor\ndef load(name):\n"
        "    return ThreadPoolExecutor(1).submit(importlib.import_module, name).result()\n",
        "lib_of_others.load('helper')",
    ),
    "from another process": (
        "import multiprocessing\ndef load(call):\n"
        "    with multiprocessing.get_context('fork').Pool(1) as pool:\n"
        "        return pool.apply(call)\n",
        "lib_of_others.load(made)",
    ),
    "a folder of data": (
        "import importlib.resources\ndef load(name):\n"
        "    return (importlib.resources.files(name) / 'a.txt').read_text()\n",
        "lib_of_others.load('texts'); import helper",
    ),
}


@pytest.mark.parametrize("way", some(TOLD, 3))
def test_libraries_find_what_own_code_tells_them(
    project: Path, install: Callable[[str, str], None], way: str
) -> None:
    library, call = TOLD[way]
    install("lib_of_others", library)
    (project / "texts").mkdir()
    (project / "texts/a.txt").write_text("a")
    helper = "def same(value):\n    return value\nclass Made:\n    pass\n"
    (project / "helper.py").write_text(writes("helper") + helper)
    made = "def made():\n    import helper\n    return helper.Made()\n"
    op = MINE.replace("    return stream", f"    {call}\n    return stream")
    (project / "mine.py").write_text(f"import lib_of_others\n{writes('mine')}{made}{op}")
    done = smk(AS_COMMAND, project, "workflow.yaml", "-j", "2")
    assert done.returncode == 0, done.stderr
    assert ran(project) == {"mine", "helper"}
    assert "is not imported" not in done.stderr


def test_an_installed_package_that_the_workflow_names_is_own_code(
    project: Path, install: Callable[[str, str], None]
) -> None:
    install("installed_ops", f"import helper\n{MINE}")
    (project / "helper.py").write_text(writes("helper"))
    workflow = project / "workflow.yaml"
    workflow.write_text(workflow.read_text().replace("'mine:", "'installed_ops:"))
    done = smk(AS_COMMAND, project, "workflow.yaml", "-j", "2")
    assert done.returncode == 0, done.stderr
    assert ran(project) == {"helper"}


def test_own_modules_find_each_other(project: Path) -> None:
    """By a statement, by name, from a pickle, and in processes that an op starts."""
    (project / "helper.py").write_text(writes("helper") + "def same(value):\n    return value\n")
    (project / "other.py").write_text(writes("other"))
    (project / "mine.py").write_text(
        "import importlib, multiprocessing, pickle, subprocess, sys\n"
        "other = importlib.import_module('other')\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        + MINE.replace(
            "    return stream",
            "    same = pickle.loads(b'chelper\\nsame\\n.')\n"
            "    with ProcessPoolExecutor(\n"
            "        1, mp_context=multiprocessing.get_context('spawn')) as pool:\n"
            "        assert pool.submit(same, 3).result() == 3\n"
            "    return stream",
        )
        + writes("mine")
    )
    done = smk(AS_COMMAND, project, "workflow.yaml", "-j", "2")
    assert done.returncode == 0, done.stderr
    assert ran(project) == {"mine", "helper", "other"}


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_what_others_may_write_is_not_imported(project: Path, mode: int) -> None:
    if mode == 0o775:  # a group that is not the user's alone
        if os.geteuid() != 0:
            pytest.skip("ONLY ROOT CAN GIVE A FOLDER AWAY: not tested here")
        os.chown(project, -1, 54321)
    project.chmod(mode)
    done = smk(AS_MODULE, project, "check", "workflow.yaml")
    assert done.returncode == 1
    assert "1 problem:" in done.stderr
    assert f"{project}/mine.py is not read, since others may write to the folder" in (done.stderr)
    assert ("use a folder of your own" if mode & 0o1000 else f"chmod go-w {project}") in done.stderr
    assert ran(project) == set()


def test_whoever_has_written_the_workflow_is_trusted(project: Path) -> None:
    """As in a container, where root runs what a user of the host has written."""
    if os.geteuid() != 0:
        pytest.skip("ONLY ROOT CAN GIVE A FOLDER AWAY: not tested here")
    project.chmod(0o775)
    for path in (project, project / "workflow.yaml", project / "mine.py"):
        os.chown(path, 54321, 54321)
    done = smk(AS_COMMAND, project, "check", "workflow.yaml")
    assert done.returncode == 0, done.stderr
    os.chown(project / "workflow.yaml", 0, 0)
    done = smk(AS_COMMAND, project, "check", "workflow.yaml")
    assert done.returncode == 1
    assert "since the folder belongs to another user" in done.stderr


def test_without_modules_such_a_folder_is_worth_a_warning(project: Path) -> None:
    (project / "workflow.yaml").write_text(SMALL)
    project.chmod(0o777)
    done = smk(AS_COMMAND, project, "workflow.yaml", "-j", "2", "--trust-build")
    assert done.returncode == 0, done.stderr
    said = f"modules in {project} are not imported, since others may write to the folder: chmod"
    assert said in done.stderr + done.stdout
    run = yaml.safe_load((project / "build/smk/run.json").read_text())
    assert str(project) not in run["own_folders"]


def test_what_pythonpath_names_is_the_users_choice(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib").mkdir()
    (project / "mine.py").rename(tmp_path / "lib" / "mine.py")
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(tmp_path / "lib"), os.environ.get("PYTHONPATH", "")])
    )
    done = smk(AS_COMMAND, project, "workflow.yaml", "-j", "2")
    assert done.returncode == 0, done.stderr
    assert ran(tmp_path / "lib") == {"mine"}
