"""A folder that a group shares: what a colleague does there changes nothing, and runs nothing.

There are two users: the one who runs this, and a second account of this machine in the same group.
It attacks before the first run, between two runs and all the time, by whatever lets it write: the
umask of the other user, or a default ACL.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.conftest import WORKFLOW, Run
from tests.support.forms import in_turn, some
from tests.support.programs import program
from tests.support.warm import run

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        os.geteuid() != 0, reason="ONLY ROOT CAN MAKE A SECOND USER: not tested here"
    ),
]

#: The small analysis without its plot, with one file of data.
SMALL = WORKFLOW.replace(", data/data_1.root", "").replace(
    "      render: {style: met, when: final}\n", ""
)
FOLDERS = (
    "artifacts", "compile", "execution", "reports", "render", "graph", "debug", "smk", ".snakemake",
)  # fmt: skip
#: Ways in which others may write to what is made in a folder.
WAYS = ("umask 002", "umask 000", "default ACL")
#: Everything that somebody may try in a build folder; each thing alone may fail.
ATTACK = r"""
import os, sys, time
build, top, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
folders = sys.argv[4:]
code = f"open({top + '/canary/ran'!r}, 'a').write('x')\n"
jobscript = f'jobscript: "$(touch {top}/canary/ran)"\n'
shell = f"#!/bin/sh\ntouch {top}/canary/ran\n"
os.umask(0)

def attempt(action, *arguments):
    try:
        action(*arguments)
    except OSError:
        return 0
    return 1

def write(path, text):
    if os.path.lexists(path):
        os.rename(path, path + '.was')
    with open(path, "w") as stream:
        stream.write(text)
    os.chmod(path, 0o755)

def overwrite(path, text):
    with open(path, "r+") as stream:
        stream.truncate()
        stream.write(text)

def once():
    done = 0
    for name in folders:
        place = f"{build}/{name}"
        done += attempt(os.makedirs, place)
        done += attempt(os.symlink, f"{top}/outside", f"{place}/planted")
        for inner in ("files", "histograms", "plots", "distributed", "work", "tasks", "locks"):
            done += attempt(os.symlink, f"{top}/outside", f"{place}/{inner}")
        for file in ("run_summary.yaml", "sitecustomize.py", "numpy.py"):
            done += attempt(os.symlink, f"{top}/outside/mine.txt", f"{place}/{file}")
            done += attempt(write, f"{place}/{file}", code)
    for name in ("smk/Snakefile", "smk/common.smk", "smk/tasks/finish.json", "sitecustomize.py"):
        for how in (write, overwrite):
            done += attempt(how, f"{build}/{name}", code)
    for name in ("smk/worker", "execution/worker-environments/packed-venv-0.run"):
        done += attempt(os.makedirs, os.path.dirname(f"{build}/{name}"))
        for how in (write, overwrite):
            done += attempt(how, f"{build}/{name}", shell)
    for name in ("smk/profile", "profiles/default", "smk/profiles/default"):
        done += attempt(os.makedirs, f"{build}/{name}")
        for how in (write, overwrite):
            done += attempt(how, f"{build}/{name}/config.yaml", jobscript)
    return done

end = time.monotonic() + seconds
while True:
    done = once()
    if time.monotonic() >= end or os.path.exists(f"{top}/canary/stop"):
        break
print(done)
"""


@dataclass(frozen=True)
class Shared:
    """A folder of a group: a project in it, what lies outside, and a colleague."""

    top: Path
    colleague: str
    group: str

    @property
    def project(self) -> Path:
        return self.top / "project"

    @property
    def build(self) -> Path:
        return self.project / "build"

    def as_colleague(self, *command: str | Path) -> list[str]:
        """Return a command as the colleague's, in the group."""
        user = pwd.getpwnam(self.colleague)
        words = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}"]
        groups = f"--groups={grp.getgrnam(self.group).gr_gid}"
        return [*words, groups, *map(str, command)]

    def attacks(self, seconds: float = 0) -> list[str]:
        python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
        words = [python, "-I", "-c", ATTACK, self.build, self.top, str(seconds), *FOLDERS]
        return self.as_colleague(*words)

    def attack(self) -> int:
        """Let the colleague try everything; return how much of it was possible."""
        done = subprocess.run(self.attacks(), check=True, capture_output=True, text=True)
        return int(done.stdout)

    def require_untouched(self) -> None:
        """Nothing of the colleague's ran, and nothing outside the build folder changed."""
        assert [one.name for one in (self.top / "canary").iterdir()] == []
        assert {one.name for one in (self.top / "outside").rglob("*")} == {"mine.txt"}
        assert (self.top / "outside/mine.txt").read_text() == "kept"

    def foreign(self) -> list[Path]:
        mine = {os.geteuid()}
        return [one for one in self.build.rglob("*") if one.lstat().st_uid not in mine]


@pytest.fixture(scope="module")
def accounts() -> Iterator[tuple[str, str]]:
    """A second user with a group of its own, and a group that both are in."""
    name, group = f"smk-c{os.getpid()}", f"smk-g{os.getpid()}"
    subprocess.run(["groupadd", group], check=True)
    subprocess.run(["useradd", "--user-group", "--no-create-home", "-G", group, name], check=True)
    yield name, group
    subprocess.run(["userdel", name], check=True)
    subprocess.run(["groupdel", group], check=True)


@pytest.fixture
def shared(accounts: tuple[str, str], small_files: Path) -> Iterator[Shared]:
    name, group = accounts
    with tempfile.TemporaryDirectory(prefix="smk-group-") as folder:
        found = Shared(Path(folder), name, group)
        found.top.chmod(0o755)
        for made in ("project", "outside", "canary"):
            (found.top / made).mkdir()
        (found.top / "canary").chmod(0o777)
        (found.top / "outside/mine.txt").write_text("kept")
        shutil.copytree(small_files, found.project / "data")
        (found.project / "workflow.yaml").write_text(SMALL)
        shutil.chown(found.project, group=group)
        found.project.chmod(0o2775)
        yield found


@pytest.fixture
def way(request: pytest.FixtureRequest, shared: Shared) -> Iterator[str]:
    """Let others write to what the user makes, if nothing is done against it."""
    setfacl = program("setfacl", "acl")
    if request.param == "default ACL":
        entries = f"user:{shared.colleague}:rwx,group:{shared.group}:rwx"
        subprocess.run([setfacl, "-d", "-m", entries, shared.project], check=True)
    before = os.umask(
        int(request.param.removeprefix("umask "), 8) if "umask" in request.param else 0o022
    )
    yield str(request.param)
    os.umask(before)


def repair(shared: Shared, said: str) -> None:
    """Do what a message says, as it stands there."""
    commands = re.findall(r"hint: (.*?); or --trust-build", said)
    assert commands, said
    for command in commands:
        subprocess.run(["bash", "-c", command], cwd=shared.project, check=True)


def opened(shared: Shared) -> None:
    """Make a build folder what it was before all of it was closed."""
    subprocess.run(["chgrp", "-R", shared.group, shared.build], check=True)
    subprocess.run(["chmod", "-R", "g+w", shared.build], check=True)


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_a_folder_that_was_prepared_is_refused_until_it_is_repaired(
    shared: Shared, way: str, smk: Run
) -> None:
    """Before the first run: a folder of the user's, in which the colleague was first."""
    shared.build.mkdir()
    assert shared.attack() > 20
    done = smk("workflow.yaml", "-j", "2", cwd=shared.project)
    assert done.returncode == 1, done.stdout
    assert f"belongs to another user ({shared.colleague})" in done.stderr
    assert "others may write to this build folder" in done.stderr
    assert ("default ACL" in done.stderr) == (way == "default ACL")
    shared.require_untouched()
    repair(shared, done.stderr)
    assert not shared.foreign()
    done = smk("workflow.yaml", "-j", "2", cwd=shared.project)
    assert done.returncode == 0, done.stderr
    assert shared.attack() == 0
    shared.require_untouched()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_what_a_run_makes_others_only_read(shared: Shared, smk: Run) -> None:
    """Between two runs, and all the time while one goes on."""
    with subprocess.Popen(shared.attacks(60), stdout=subprocess.DEVNULL) as attacker:
        try:
            while not shared.build.exists() and attacker.poll() is None:
                shared.build.mkdir(mode=0o755)
            subprocess.run(["setfacl", "-k", shared.build], check=True)
            done = smk("workflow.yaml", "-j", "2", cwd=shared.project)
        finally:
            attacker.kill()
    if "belongs to another user" in done.stderr:  # it was first
        shared.require_untouched()
        repair(shared, done.stderr)
        done = smk("workflow.yaml", "-j", "2", cwd=shared.project)
    assert done.returncode == 0, done.stderr
    assert not shared.foreign()
    assert shared.attack() == 0
    for result in (shared.build / "artifacts").rglob("*"):
        wanted = "-x" if result.is_dir() else "-r"
        read = subprocess.run(shared.as_colleague("test", wanted, result))
        assert read.returncode == 0, result
    (shared.project / "workflow.yaml").write_text(SMALL.replace("high: 100", "high: 90"))
    for command in (["workflow.yaml", "-j", "2"], ["status"], ["report"], ["clean", "--all"]):
        done = smk(*command, cwd=shared.project)
        assert done.returncode == 0, done.stderr
        assert shared.attack() == 0
    shared.require_untouched()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("way", WAYS[:1], indirect=True)
def test_a_folder_is_made_closed(shared: Shared, smk: Run) -> None:
    """Also if it is made deep in a folder of the group, and by another command than a run."""
    for command in (["translate", "workflow.yaml"], ["workflow.yaml", "-j", "2"]):
        name = f"results/{command[0]}"
        done = smk(*command, "-o", name, cwd=shared.project)
        assert done.returncode == 0, done.stderr
        for path in (shared.project / "results").rglob("*"):
            assert path.is_symlink() or not path.stat().st_mode & 0o022, path


@pytest.fixture(scope="module")
def built(small_files: Path) -> Iterator[Path]:
    """A build folder of a run, to be copied."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(small_files, folder / "data")
        (folder / "workflow.yaml").write_text(SMALL)
        done = run("workflow.yaml", "-j", "2", cwd=folder)
        assert done.returncode == 0, done.stderr
        yield folder / "build"


COMMANDS = {
    "run": ["workflow.yaml"], "dry run": ["workflow.yaml", "-n"], "why": ["why", "workflow.yaml"],
    "translate": ["translate", "workflow.yaml"], "status": ["status"], "report": ["report"],
    "clean": ["clean"], "pack": ["pack"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "command"), in_turn(FOLDERS, list(COMMANDS)))
def test_a_link_of_somebody_else_is_refused_wherever_it_is(
    shared: Shared, built: Path, smk: Run, name: str, command: str
) -> None:
    """Also where the folder is closed by now, which it was not before."""
    shutil.copytree(built, shared.build, symlinks=True)
    place = shared.build / name
    place.mkdir(exist_ok=True)
    opened(shared)
    link = next(one for one in (place, *place.rglob("*")) if one.is_dir()) / "planted"
    subprocess.run(shared.as_colleague("ln", "-s", shared.top / "outside", link), check=True)
    subprocess.run(["chmod", "-R", "go-w", shared.build], check=True)
    done = smk(*COMMANDS[command], cwd=shared.project)
    assert done.returncode == 1, done.stdout
    assert f"build/{link.relative_to(shared.build)}: " in done.stderr
    assert f"belongs to another user ({shared.colleague})" in done.stderr
    repair(shared, done.stderr)
    assert not shared.foreign()
    if command != "pack":  # which takes minutes
        assert smk(*COMMANDS[command], cwd=shared.project).returncode == 0
    shared.require_untouched()


@pytest.mark.parametrize("name", some(["smk/Snakefile", "smk/worker", "run_summary.yaml"], 1))
@pytest.mark.parametrize("by", ["mode", "ACL"])
def test_a_file_that_others_may_write_to_is_refused(
    shared: Shared, built: Path, smk: Run, name: str, by: str
) -> None:
    """The group of the file is the user's own."""
    shutil.copytree(built, shared.build, symlinks=True)
    if by == "ACL":
        acl = [program("setfacl", "acl"), "-m", f"user:{shared.colleague}:rw", shared.build / name]
        subprocess.run(acl, check=True)
    else:
        (shared.build / name).chmod(0o646)
    done = smk("workflow.yaml", cwd=shared.project)
    assert done.returncode == 1, done.stdout
    assert f"build/{name}: --outdir: others may write" in done.stderr
    assert (f"ACL user:{shared.colleague}" in done.stderr) == (by == "ACL")
    repair(shared, done.stderr)
    assert smk("workflow.yaml", cwd=shared.project).returncode == 0


def test_links_of_ones_own_are_followed_and_looked_at(
    shared: Shared, built: Path, smk: Run
) -> None:
    """As where results are on another disk."""
    shutil.copytree(built, shared.build, symlinks=True)
    elsewhere = shared.top / "disk"
    shutil.move(shared.build / "artifacts", elsewhere)
    (shared.build / "artifacts").symlink_to(elsewhere)
    assert smk("workflow.yaml", cwd=shared.project).returncode == 0
    elsewhere.chmod(0o777)
    subprocess.run(shared.as_colleague("touch", elsewhere / "planted"), check=True)
    done = smk("workflow.yaml", cwd=shared.project)
    assert done.returncode == 1
    assert "build/artifacts/planted: " in done.stderr
    assert f"chmod -R go-w {elsewhere}" in done.stderr
    repair(shared, done.stderr)
    assert smk("workflow.yaml", cwd=shared.project).returncode == 0
    shutil.chown(elsewhere, shared.colleague)
    done = smk("workflow.yaml", cwd=shared.project)
    assert done.returncode == 1
    assert "hint: rm " in done.stderr


def test_another_build_folder_in_the_place_of_ones_own_is_refused(
    shared: Shared, built: Path, smk: Run
) -> None:
    """Whoever may write to the folder above may rename it: if the workflow is there, that, too."""
    pool = shared.top / "pool"
    pool.mkdir()
    pool.chmod(0o777)
    done = smk("workflow.yaml", "-o", str(pool / "other"), cwd=shared.project)
    assert done.returncode == 0, done.stderr
    said = f"others may rename the files in {pool} ('chmod +t' prevents it): they can replace "
    assert said in done.stderr
    done = smk("workflow.yaml", "-o", "other", cwd=shared.project)
    assert done.returncode == 0, done.stderr
    assert "may rename" not in done.stderr
    shutil.copytree(built, shared.build, symlinks=True)
    script = f"mv {shared.build} {shared.build}.was && mkdir -p {shared.build}/smk"
    subprocess.run(shared.as_colleague("sh", "-c", script), check=True)
    done = smk("workflow.yaml", cwd=shared.project)
    assert done.returncode == 1
    assert f"belongs to another user ({shared.colleague})" in done.stderr
    shutil.rmtree(shared.build)
    link = ["ln", "-s", f"{shared.build}.was", shared.build]
    subprocess.run(shared.as_colleague(*link), check=True)
    assert "another user" in smk("status", cwd=shared.project).stderr


@pytest.mark.parametrize("what", ["file", "folder", "record", "products", "module"])
def test_nothing_of_somebody_else_is_believed(
    shared: Shared, built: Path, smk: Run, what: str
) -> None:
    """Whatever it is, and as right as it looks: a copy of what was there."""
    shutil.copytree(built, shared.build, symlinks=True)
    job = next((shared.build / "smk/work").rglob("products.zip")).parent
    place = {
        "file": shared.build / "artifacts/new.csv",
        "folder": shared.build / "reports/new/inner",
        "record": job / "record.json",
        "products": job / "products.zip",
        "module": shared.build / "sitecustomize.py",
    }[what]
    if what == "folder":
        place.mkdir(parents=True)
        (place / "run_summary.yaml").touch()
    elif not place.exists():
        place.write_text(f"open({str(shared.top / 'canary/ran')!r}, 'w')\n")
    for path in (place, *place.rglob("*")):
        shutil.chown(path, shared.colleague)
    for command in (["status"], ["workflow.yaml"]):
        done = smk(*command, cwd=shared.project)
        assert done.returncode == 1
        assert f"build/{place.relative_to(shared.build)}: " in done.stderr
    repair(shared, done.stderr)
    assert not place.exists()
    done = smk("workflow.yaml", cwd=shared.project)
    assert done.returncode == 0, done.stderr
    shared.require_untouched()


NOTES, LOGS = (".snakemake", "metadata"), (".snakemake", "log")


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("way", WAYS[:1], indirect=True)
def test_what_plain_snakemake_makes_is_closed(shared: Shared, smk: Run, snakemake: Run) -> None:
    """It reads our rules before it makes anything but its own log; its notes are for a group."""
    assert smk("translate", "workflow.yaml", cwd=shared.project).returncode == 0
    done = snakemake("-c", "2", "-s", "smk/Snakefile", cwd=shared.build)
    assert done.returncode == 0, done.stderr
    for path in shared.build.rglob("*"):
        of_snakemake = path.relative_to(shared.build).parts[:2] in (NOTES, LOGS)
        assert path.is_symlink() or of_snakemake or not path.stat().st_mode & 0o022, path
    (shared.build / ".snakemake/log").chmod(0o755)
    assert smk("status", cwd=shared.project).returncode == 0


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("way", WAYS[:1], indirect=True)
def test_fasthep_makes_files_before_we_do(shared: Shared, smk: Run) -> None:
    """Its own command goes by the umask, until it calls the backend."""
    before = os.umask(0o002)
    assert smk("enable", cwd=shared.project).returncode == 0
    command = ["run", "workflow.yaml", "--outdir", "build", "--backend", "snakemake"]
    done = run(*command, cwd=shared.project, program="fasthep")
    assert done.returncode == 1, done.stdout
    hint = "hint: FAST-HEP makes files before fasthep-smk starts: type 'umask 022', then chmod"
    assert hint in done.stderr
    try:
        os.umask(0o022)
        subprocess.run(["chmod", "-R", "go-w", "build"], cwd=shared.project, check=True)
        done = run(*command, cwd=shared.project, program="fasthep")
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stderr
    assert shared.attack() == 0


@pytest.mark.parametrize("name", ["hep", "registry"])
def test_a_profile_of_somebody_else_is_not_found(shared: Shared, smk: Run, name: str) -> None:
    """FAST-HEP looks for those that a workflow uses in the folder that it is started in."""
    folder = shared.project / ".hepflow"
    path = folder / f"profiles/{name}.yaml"
    includes = "includes: [hepflow:registry]\n" if name == "registry" else "includes: [registry]\n"
    script = f"umask 0; mkdir -p {path.parent} && echo '{includes}' > {path}"
    subprocess.run(shared.as_colleague("sh", "-c", script), check=True)
    done = smk("workflow.yaml", cwd=shared.project)
    assert done.returncode == 1, done.stdout
    assert f"- {folder}: is not used" in done.stderr
    assert "the folder belongs to another user" in done.stderr
    assert "otherwise remove it" in done.stderr
    shutil.rmtree(folder)
    assert smk("check", "workflow.yaml", cwd=shared.project).returncode == 0


@pytest.mark.parametrize("prepared", ["theirs", "writable"])
def test_a_site_profile_of_somebody_else_is_not_found_by_its_name(
    shared: Shared, smk: Run, prepared: str
) -> None:
    """One of ours has the same name: it is meant."""
    folder = shared.project / "local"
    text = "latency-wait: 5\\nrerun-triggers: [mtime]\\n"
    script = f"mkdir {folder} && printf '{text}' > {folder}/config.yaml"
    if prepared == "theirs":
        subprocess.run(shared.as_colleague("sh", "-c", script), check=True)
    else:
        subprocess.run(["sh", "-c", script], check=True)
        (folder / "config.yaml").chmod(0o666)
    done = smk("check", "workflow.yaml", "--profile", "local", cwd=shared.project)
    assert done.returncode == 1, done.stdout
    assert "--profile: is not used, since" in done.stderr
    assert "is yours" in done.stderr
    done = smk("check", "workflow.yaml", "--profile", "./local", cwd=shared.project)
    assert done.returncode == 0, done.stderr
