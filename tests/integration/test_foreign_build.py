"""A build folder that somebody else has made, or may write to: not believed, and not run.

There are two users: the one who runs this, and one who owns what the test plants. Nothing that is
planted may run, and nothing outside the build folder may be touched, also where the user says that
the folder is to be trusted.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fasthep_smk.storage import failures, layout
from fasthep_smk.util import files
from tests.integration.conftest import Run
from tests.support import warm
from tests.support.forged import forged, is_real
from tests.support.forms import in_turn, some

pytestmark = pytest.mark.integration

#: Nobody has this number.
OTHER = 54321
CANARY = "canary.txt"
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="ONLY ROOT CAN MAKE ANOTHER USER'S FILES: not tested here"
)
COMMANDS: dict[str, list[str]] = {
    "run": ["workflow.yaml"],
    "dry run": ["workflow.yaml", "-n"],
    "translate": ["translate", "workflow.yaml"],
    "why": ["why", "workflow.yaml"],
    "explain": ["explain", "workflow.yaml"],
    "check": ["check", "workflow.yaml"],
    "status": ["status"],
    "clean": ["clean"],
    "clean all": ["clean", "--all"],
}
RUN_NOTHING = [name for name in COMMANDS if name != "run"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, small_files: Path, smk: Run) -> Path:
    """A project that has run once."""
    from tests.integration.conftest import WORKFLOW

    folder = tmp_path_factory.mktemp("foreign") / "project"
    folder.mkdir()
    (folder / "data").symlink_to(small_files)
    (folder / "workflow.yaml").write_text(WORKFLOW)
    done = smk("workflow.yaml", "-j", "2", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    subprocess.run(["cp", "-a", built, tmp_path / "project"], check=True)
    return tmp_path / "project"


def give_away(build: Path) -> None:
    """Let all of a build folder belong to the other user."""
    for path in (build, *build.rglob("*")):
        os.chown(path, OTHER, OTHER, follow_symlinks=False)


def plant(build: Path) -> None:
    """Put code wherever somebody may look for some: it leaves a canary."""
    canary = build.parent / CANARY
    python = f"open({str(canary)!r}, 'a').write('x')\n"
    (build / "smk/worker").write_text(f"#!/bin/sh\ntouch '{canary}'\n")
    for name in ("smk/Snakefile", "smk/common.smk", "fasthep_distributed.py", "sitecustomize.py"):
        (build / name).write_text(python)
    shell = f'executor: "$(touch {canary})"\n'
    for name in ("config.yaml", "config.v9+.yaml", "config.v8+.yaml"):
        (build / "smk/profile" / name).write_text(shell)


def kept(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


@needs_root
@pytest.mark.parametrize("command", COMMANDS)
def test_the_folder_of_another_user_is_refused(project: Path, smk: Run, command: str) -> None:
    plant(project / "build")
    give_away(project / "build")
    before = kept(project / "build")
    done = smk(*COMMANDS[command], cwd=project)
    assert done.returncode == 1, done.stdout
    assert f"belongs to another user (user {OTHER})" in done.stderr
    assert "--trust-build" in done.stderr
    assert kept(project / "build") == before
    assert not (project / CANARY).exists()


@needs_root
@pytest.mark.parametrize("name", ["", "smk", "smk/profile", ".snakemake"])
def test_any_folder_that_holds_code_counts(project: Path, smk: Run, name: str) -> None:
    os.chown(project / "build" / name, OTHER, OTHER)
    done = smk("why", "workflow.yaml", cwd=project)
    assert done.returncode == 1
    assert "another user" in done.stderr


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused(project: Path, smk: Run, mode: int) -> None:
    (project / "build").chmod(mode)
    done = smk("workflow.yaml", cwd=project)
    assert done.returncode == 1
    assert "others may write to this build folder" in done.stderr
    assert "chmod -R go-w" in done.stderr
    done = smk("workflow.yaml", "--trust-build", cwd=project)
    assert done.returncode == 0, done.stderr


@needs_root
def test_a_group_of_others_may_not_write(project: Path, smk: Run) -> None:
    (project / "build").chmod(0o775)
    assert smk("status", cwd=project).returncode == 0  # root's own group
    os.chown(project / "build", 0, OTHER)
    assert smk("status", cwd=project).returncode == 1


@pytest.mark.parametrize("umask", some([0o000, 0o077, 0o002, 0o022], 2))
def test_a_folder_of_ones_own_is_fine_whatever_the_umask(
    project: Path, smk: Run, umask: int
) -> None:
    before = os.umask(umask)
    try:
        for command in (["workflow.yaml", "-o", "new"], ["status", "new"], ["clean", "new"]):
            done = smk(*command, cwd=project)
            assert done.returncode == 0, done.stderr
    finally:
        os.umask(before)
    assert not (project / "new").stat().st_mode & 0o002
    assert not (project / "new/smk").stat().st_mode & 0o002


@needs_root
@pytest.mark.parametrize("command", RUN_NOTHING)
def test_a_command_that_runs_nothing_runs_nothing(project: Path, smk: Run, command: str) -> None:
    plant(project / "build")
    give_away(project / "build")
    done = smk(*COMMANDS[command], "--trust-build", cwd=project)
    assert done.returncode == 0, done.stderr
    assert not (project / CANARY).exists()


@pytest.mark.parametrize("name", ["default", "profiles/default"])
@pytest.mark.parametrize("command", ["run", "dry run", "why"])
def test_options_that_lie_there_are_not_taken(
    project: Path, smk: Run, command: str, name: str
) -> None:
    """Of a copy, which is the user's own: Snakemake runs the templates of such profiles.

    It looks for them where it would find a Snakefile of its own accord.
    """
    (project / "build/Snakefile").touch()
    place = project / "build" / name
    place.mkdir(parents=True)
    touch = f"touch {project / CANARY}"
    (place / "config.yaml").write_text(
        "__use_yte__: true\n__definitions__:\n  - import os\n"
        f"  - os.system({touch!r})\nkeep-going: true\n"
    )
    text = (project / "workflow.yaml").read_text().replace("high: 100", "high: 90")
    (project / "workflow.yaml").write_text(text)
    done = smk(*COMMANDS[command], cwd=project)
    assert done.returncode == 0, done.stderr
    assert not (project / CANARY).exists()


@needs_root
def test_a_run_makes_its_own_code_anew(project: Path, smk: Run) -> None:
    plant(project / "build")
    give_away(project / "build")
    (project / "workflow.yaml").write_text(
        (project / "workflow.yaml").read_text().replace("high: 100", "high: 90")
    )
    done = smk("workflow.yaml", "--trust-build", cwd=project)
    assert done.returncode == 0, done.stderr
    assert not (project / CANARY).exists()
    assert [path.name for path in (project / "build/smk/profile").iterdir()] == ["config.yaml"]


def test_the_lock_is_no_link(project: Path, smk: Run) -> None:
    mine = project / "mine.txt"
    mine.write_text("kept")
    lock = project / "build" / layout.LOCK
    lock.unlink()
    lock.symlink_to(mine)
    done = smk("workflow.yaml", cwd=project)
    assert done.returncode == 1
    assert "is a symbolic link, not a file" in done.stderr
    assert mine.read_text() == "kept"


SPECIAL: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "socket": lambda path: socket.socket(socket.AF_UNIX).bind(os.path.relpath(path)),
}


IN_PLACE_OF = (
    "smk/lock", "smk/run.json", "smk/tasks/finish.json", "smk/worker", "smk/profile/config.yaml",
    "smk/new.json", "compile/plan.yaml", "smk/requests.json", "smk/ledger.json",
)  # fmt: skip


@pytest.mark.parametrize("trust", [[], ["--trust-build"]])
@pytest.mark.parametrize(("name", "kind"), in_turn(IN_PLACE_OF, list(SPECIAL)))
def test_nothing_waits_for_a_pipe(
    project: Path, name: str, kind: str, trust: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / "build" / name
    path.unlink(missing_ok=True)
    monkeypatch.chdir(path.parent)
    SPECIAL[kind](path)
    done = warm.run("workflow.yaml", *trust, cwd=project, timeout=60)
    assert done.returncode == 1, done.stdout
    assert "a pipe" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_pipe_in_place_of_a_record_is_a_job_that_runs_again(project: Path) -> None:
    record = next((project / "build" / layout.WORK).rglob("0_0/record.json"))
    record.unlink()
    os.mkfifo(record)
    for arguments, status in ((["-n"], 0), ([], 0)):
        done = warm.run("workflow.yaml", *arguments, cwd=project, timeout=60)
        assert done.returncode == status, done.stderr
    assert record.is_file()


@pytest.mark.parametrize(
    "name",
    ["smk", "smk/work", "smk/old", "smk/stage", "debug", "debug/distributed/logs", ".snakemake"],
)
def test_clean_follows_no_link(project: Path, smk: Run, name: str) -> None:
    """Of a copy of somebody else's folder, which is the user's own with all links."""
    outside = project / "outside"
    (outside / "empty/deeper").mkdir(parents=True)
    for inner in ("", "work/", "stage/", "log/"):
        (outside / inner).mkdir(exist_ok=True)
        (outside / inner / "record.json").write_text("kept")
    place = project / "build" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        place.rename(project / "aside")
    place.symlink_to(outside)
    smk("clean", "--all", cwd=project)
    for inner in ("", "work/", "stage/", "log/"):
        assert (outside / inner / "record.json").read_text() == "kept"
    assert (outside / "empty/deeper").is_dir()


@needs_root
def test_clean_follows_no_link_of_another_user(project: Path, smk: Run) -> None:
    outside = project / "outside"
    (outside / "work/x").mkdir(parents=True)
    (outside / "work/x/record.json").write_text("kept")
    (project / "build/smk").rename(project / "aside")
    (project / "build/smk").symlink_to(outside)
    os.chown(project / "build/smk", OTHER, OTHER, follow_symlinks=False)
    smk("clean", "--all", "--trust-build", cwd=project)
    assert (outside / "work/x/record.json").read_text() == "kept"


@pytest.mark.parametrize("name", ["../mine.txt", "/etc/hostname", "smk/tasks/finish.json"])
def test_no_record_moves_files_of_others(project: Path, smk: Run, name: str) -> None:
    """A job that is superseded takes its results away: those of its own."""
    mine = project / "mine.txt"
    mine.write_text("kept")
    path = next((project / "build" / layout.WORK).rglob("finish/record.json"))
    record = files.unseal(path.read_bytes())
    target = project / "build" / name
    record["results"][name] = files.described(target)
    path.write_text(files.seal(record))
    text = (project / "workflow.yaml").read_text().replace("high: 100", "high: 90")
    (project / "workflow.yaml").write_text(text)
    done = smk("workflow.yaml", cwd=project)
    assert done.returncode == 0, done.stderr
    assert mine.read_text() == "kept"
    assert target.exists()


def test_a_process_that_is_no_job_is_not_ended(project: Path, smk: Run) -> None:
    """A note may name any process, and a lock any run."""
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        build = project / "build"
        note = failures.Failure(
            rule="r", key="k", record="x", problem="?", kind="killed",
            host=socket.gethostname(), pid=bystander.pid, born=failures.born(bystander.pid),
        )  # fmt: skip
        failures.note(build, note)
        state = {
            "state": "running", "host": socket.gethostname(), "pid": bystander.pid,
            "born": 1, "snakemake": bystander.pid, "snakemake_born": failures.born(bystander.pid),
        }  # fmt: skip
        (build / layout.LOCK).write_text(json.dumps(state).ljust(400) + "\n")
        done = smk("workflow.yaml", cwd=project)
        assert done.returncode == 0, done.stderr
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize(
    ("options", "cold"), in_turn([(), ("--bundle", "1"), ("--bundle", "3")], [False, True])
)
def test_logs_are_for_the_user_alone(
    built: Path, smk: Run, tmp_path: Path, options: tuple[str, ...], cold: bool
) -> None:
    """What an error quotes may be secret."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "data").symlink_to(built / "data")
    (project / "workflow.yaml").write_text((built / "workflow.yaml").read_text())
    plain = ["--", "--set-threads", "stages_Vars_to_Met=2"] if cold else []
    done = smk("workflow.yaml", "-j", "2", *options, *plain, cwd=project)
    assert done.returncode == 0, done.stderr
    logs = list((project / "build/debug/distributed").rglob("*.log"))
    assert len(logs) >= 4
    assert {path.stat().st_mode & 0o777 for path in logs} == {0o600}


# --- results of others ----------------------------------------------------------------------------


def in_place(build: Path) -> None:
    give_away(build)


def copied(build: Path) -> None:
    """Somebody else's files, in the reader's own name."""
    for path in (build, *build.rglob("*")):
        os.chown(path, os.geteuid(), os.getegid(), follow_symlinks=False)


def from_a_tar(build: Path) -> None:
    give_away(build)
    tar = build.with_name("results.tar")
    subprocess.run(["tar", "-C", build.parent, "-cf", tar, build.name], check=True)
    shutil.rmtree(build)
    subprocess.run(["tar", "-C", build.parent, "--no-same-owner", "-xf", tar], check=True)


WAYS = {"in place": in_place, "copied": copied, "from a tar": from_a_tar}
FROM_PYTHON = """
import json, sys
import fasthep_smk
results = fasthep_smk.load_results("build")
said = {}
for name in sys.argv[1:]:
    try:
        said[name] = float(results.histogram(name).sum(flow=True))
    except Exception as error:
        said[name] = str(error)
try:
    results.histograms()
except Exception as error:
    said["all"] = type(error).__name__
print(json.dumps(said))
"""


@needs_root
@pytest.mark.parametrize("way", WAYS)
def test_results_of_others_run_nothing(project: Path, smk: Run, way: str) -> None:
    build, canary = project / "build", project / CANARY
    shutil.copytree(build, project / "mine")
    pickled = forged(canary)
    folder = build / "artifacts/histograms"
    manifest = json.loads((folder / "manifest.json").read_text())
    for name, content in pickled.items():
        assert is_real(content, canary, project), f"{name} runs what it says"
        (folder / f"{name}.pkl").write_bytes(content)
        path = f"artifacts/histograms/{name}.pkl"
        manifest["histograms"].append({"id": name, "path": path, "producer": name})
    (folder / "manifest.json").write_text(json.dumps(manifest))
    WAYS[way](build)
    for command in (
        ["report", "build"],
        ["report", "build", "--json"],
        ["compare", "build", "mine"],
    ):
        for trusted in ([], ["--trust-build"]):
            done = smk(*command, *trusted, cwd=project)
            assert not canary.exists(), (command, done.stderr)
            assert "Traceback" not in done.stderr
        if "--json" in command:
            assert {row["name"] for row in json.loads(done.stdout)["histograms"]} == {"Met"}
        if "compare" in command:
            assert all(f"histograms/{name}.pkl" in done.stdout + done.stderr for name in pickled)
        else:
            assert done.returncode == 0, done.stderr
    script = [sys.executable, "-P", "-c", FROM_PYTHON, "Met", *pickled]
    said = json.loads(subprocess.check_output(script, cwd=project))
    assert not canary.exists()
    assert said.pop("Met") > 0
    assert said.pop("all") == "Findings"
    assert all("Met.pkl" not in text and "was not read: it " in text for text in said.values())
    assert said.keys() == pickled.keys()
