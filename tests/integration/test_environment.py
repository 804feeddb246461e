"""The environment that runs these tests, packed, on a machine that shares nothing with this one."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fasthep_smk.contrib.pack.archive import Parts, write_archive
from fasthep_smk.contrib.pack.build import NEEDED, archive_path, pack
from fasthep_smk.contrib.pack.conda import CondaContents
from fasthep_smk.util.errors import Findings
from fasthep_smk.worker.probe import describe_worker
from tests.integration.conftest import Run
from tests.support import warm
from tests.support.compare import compare_builds
from tests.support.debian import RELEASE, DebianUnavailableError, debian_tree, in_tree
from tests.support.packed import Node, small_parts
from tests.support.project import Project, make_project, once, shared_base

pytestmark = pytest.mark.integration


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """An analysis with a module of its own, whose environment is packed: once for all tests."""

    def make(folder: Path) -> None:
        command = [sys.executable, "-m", "fasthep_smk", "pack", "workflow.yaml"]
        where = make_project(folder).folder
        done = subprocess.run(command, cwd=where, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        (folder / "said").write_text(done.stdout)

    return Project(once(shared_base(tmp_path_factory) / "packed", make))


@pytest.fixture(scope="session")
def archive(project: Project) -> Path:
    (found,) = (project.build / "execution" / "worker-environments").glob("*.run")
    return found


@dataclass
class Machine:
    """Debian without Python: ``folder`` is all that it has of this machine, as /outside."""

    tree: Path
    folder: Path
    archive: Path
    variables: dict[str, str] = field(default_factory=lambda: {"TMPDIR": "/outside/tmp"})

    @property
    def cache(self) -> Path:
        return self.folder / "tmp" / "fasthep-smk-1234"

    def command(self, *arguments: str, cwd: str = "/") -> list[str]:
        set_them = [f"{name}={value}" for name, value in self.variables.items()]
        inside = ["/usr/bin/env", *set_them, "/bin/sh", "-c", 'cd "$0" && exec sh "$@"', cwd]
        packed = ["/outside/" + self.archive.name, "--", *arguments]
        return in_tree(self.tree, self.folder, *inside, *packed)

    def run(self, *arguments: str, cwd: str = "/") -> subprocess.CompletedProcess[str]:
        command = self.command(*arguments, cwd=cwd)
        return subprocess.run(command, capture_output=True, text=True)

    def log(self) -> list[str]:
        lines = (self.cache / "log").read_text().splitlines()
        return [word for line in lines if (word := line.split()[3]) in ("extracted", "found")]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Machine:
    """A machine on which several tests start the archive: one of them unpacks it."""
    return make_machine(tmp_path_factory.mktemp("machines"), archive)


def make_machine(place: Path, archive: Path, release: str = RELEASE) -> Machine:
    try:
        tree = debian_tree(release)
    except DebianUnavailableError as error:
        possible = os.geteuid() == 0 and Path("/etc/debian_version").exists()
        if possible and os.environ.get("CI") == "true":
            pytest.fail(f"there is no second machine: {error}", pytrace=False)
        reason = f"packed environments were not tried on another machine: {error}"
        warnings.warn(reason, stacklevel=2)
        pytest.skip(reason)
    folder = place / "machine"
    for path in (folder, folder / "tmp"):
        path.mkdir()
        path.chmod(0o1777)
    os.link(archive, folder / archive.name)
    return Machine(tree, folder, archive)


def test_it_is_built_once(project: Project, archive: Path, smk: Run) -> None:
    def identity() -> tuple[int, int, int]:
        """Which file it is, and when it was written: not when it was read."""
        status = archive.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns

    before = identity()
    assert "built and tested in" in (project.folder / "said").read_text()
    done = smk("pack", "workflow.yaml", cwd=project.folder)
    assert "already there" in done.stdout
    assert identity() == before
    names = {path.name for path in archive.parent.iterdir() if path.suffix != ".lock"}
    assert names == {archive.name, f"{archive.name}.sha256"}


def test_the_doctor_says_which_one_it_is(project: Project, archive: Path) -> None:
    text = (project.folder / "workflow.yaml").read_text()
    asking = text.replace("execution:\n", "execution:\n  environment: {type: packed-venv}\n")
    (project.folder / "asking.yaml").write_text(asking)
    done = warm.run("doctor", "asking.yaml", "--json", cwd=project.folder)
    (check,) = (item for item in json.loads(done.stdout) if item["what"] == "environment")
    key = archive.stem.removeprefix("packed-venv-")
    size = archive.stat().st_size / 1e6
    assert check["found"].startswith(f"packed-venv {key}: {size:.0f} MB")
    assert check["state"] == "ok"


def test_nothing_of_this_machine_is_named_in_it(archive: Path, machine: Machine) -> None:
    assert machine.run("-c", "pass").returncode == 0
    root = machine.cache / archive.stem.removeprefix("packed-venv-")
    places = [sys.prefix, sys.base_prefix, str(Path(__file__).parents[2]), str(archive.parent)]
    named = []
    for path in [*root.glob("bin/*"), *root.rglob("*.pth"), *root.rglob("_sysconfigdata*.py")]:
        content = path.read_bytes()
        named += [(path, place) for place in places if place.encode() in content]
    assert named == []


def test_jobs_find_all_they_need_where_there_is_no_python(machine: Machine) -> None:
    """Also in an older release, whose C library is too old for our interpreter."""
    for _ in range(2):
        done = machine.run("-m", "fasthep_smk.worker.probe", "/outside/tmp/found.json")
        assert done.returncode == 0, done.stderr
    assert machine.log().count("extracted") == 1
    assert machine.log()[-1] == "found"
    names = f"import my_ops, {', '.join(NEEDED)}; import sys; print(sys.prefix)"
    done = machine.run("-c", f"{names}; print(my_ops.__file__)")
    assert done.returncode == 0, done.stderr
    root = f"/outside/tmp/fasthep-smk-1234/{machine.archive.stem.removeprefix('packed-venv-')}"
    prefix, module = done.stdout.split()
    assert prefix == root
    assert module.startswith(f"{root}/")
    found = (machine.folder / "tmp" / "found.json").read_text()
    here = describe_worker()
    for package, version in here["packages"].items():
        assert f'"{package}": "{version}"' in found


@pytest.mark.long
def test_a_whole_analysis_gives_the_same_results_there(
    machine: Machine, project: Project, tmp_path: Path
) -> None:
    ignored = shutil.ignore_patterns("build", "said")
    shutil.copytree(project.folder, tmp_path / "here", ignore=ignored)
    shutil.copytree(project.folder, machine.folder / "analysis", ignore=ignored)
    for path in (machine.folder / "analysis", *(machine.folder / "analysis").rglob("*")):
        os.chown(path, 1234, 1234)
    done = machine.run("-m", "fasthep_smk", "workflow.yaml", "-j", "2", cwd="/outside/analysis")
    assert done.returncode == 0, done.stderr
    here = Project(tmp_path / "here")
    here.run()
    there = machine.folder / "analysis" / "build"
    assert compare_builds(here.build, there) == []


@pytest.mark.long
def test_killed_at_any_moment_the_next_one_unpacks_all(tmp_path: Path, archive: Path) -> None:
    machine = make_machine(tmp_path, archive)
    # In the first part, after it, and in the middle of the second.
    for there in ("", "lib/zzz-last", "lib/python3.*/site-packages/numpy"):
        process = subprocess.Popen(machine.command("-c", "pass"), start_new_session=True)
        wait_for(machine.cache, f".boot-*/{there}")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert not list(machine.cache.glob("*/complete"))
    done = machine.run("-c", "import numpy; print(numpy.arange(3).sum())")
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
    assert [path.name for path in machine.cache.glob(".*")] == []


def wait_for(folder: Path, pattern: str) -> None:
    for _ in range(6000):
        if any(folder.glob(pattern)):
            return
        time.sleep(0.01)
    raise AssertionError(f"no {pattern} in {folder}")


@dataclass(frozen=True)
class Broken:
    """An environment in which a module is missing."""

    kind: str = "packed-venv"
    modules: tuple[str, ...] = ("json", "zz_absent")
    key: str = "0123456789abcdef0123"

    def parts(self) -> Parts:
        return small_parts(self.key)


def test_what_does_not_work_is_not_kept(tmp_path: Path) -> None:
    killed = tmp_path / f".packed-venv-{Broken.key}.1.new"  # what a killed one has left
    killed.touch()
    (tmp_path / f"{killed.name}-x").mkdir()
    with pytest.raises(Findings, match="it cannot import the module 'zz_absent': ModuleNotFound"):
        pack(Broken(), tmp_path)
    assert not archive_path(Broken(), tmp_path).exists()
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == []


def test_a_conda_environment_is_moved_by_conda_pack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prefix made by hand; test_conda.py has one of packages. It is packed to the same bytes."""
    importlib.import_module("conda_pack")  # it is not in that prefix
    prefix = make_conda_prefix(tmp_path / "prefix")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "-packages" not in path])
    contents = CondaContents("packed-conda", ("json",), prefix)
    archive, again = tmp_path / "a.run", tmp_path / "b.run"
    for path in (archive, again):
        write_archive(contents.parts(), path)
    assert archive.read_bytes() == again.read_bytes()
    (prefix / "conda-meta" / "state").write_text('{"env_vars": {"OWN": "1"}}')
    assert CondaContents("packed-conda", ("json",), prefix).key != contents.key
    prefix.rename(tmp_path / "gone")
    node = Node(tmp_path / "node")
    node.folder.mkdir()
    code = "import sys; print(sys.prefix); print(open(sys.prefix + '/etc/own.conf').read())"
    for _ in range(2):
        done = node.run(archive, "-c", code)
        root = node.cache / contents.key
        assert (done.returncode, done.stdout) == (0, f"{root}\nprefix={root}\n\n"), done.stderr
    assert node.log() == ["extracted", "found"]


def make_conda_prefix(prefix: Path) -> Path:
    """An interpreter in a folder of its own, with a file that names the folder."""
    base = Path(sys.base_prefix)
    python = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    without = shutil.ignore_patterns("test", "*-packages", "__pycache__", "config-*", "idlelib")
    shutil.copytree(base / "lib" / version, prefix / "lib" / version, ignore=without)
    (prefix / "bin").mkdir()
    shutil.copy(python, prefix / "bin" / version)
    (prefix / "bin" / "python").symlink_to(version)
    (prefix / "lib" / version / "site-packages").mkdir()
    (prefix / "etc").mkdir()
    (prefix / "etc" / "own.conf").write_text(f"prefix={prefix}\n")
    (prefix / "conda-meta").mkdir()
    (prefix / "conda-meta" / "history").touch()
    about = {"name": "python", "version": "3", "url": "", "link": None, "files": ["bin/python"]}
    (prefix / "conda-meta" / "python.json").write_text(json.dumps(about))
    return prefix
