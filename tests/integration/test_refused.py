"""What is refused, or only asked, changes nothing in a build folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from fasthep_smk.util import files
from tests.integration.conftest import WORKFLOW, Run
from tests.support.forms import in_turn

pytestmark = pytest.mark.integration

#: What refuses a workflow before the first job: an edit of it, and options.
REASONS: dict[str, tuple[Callable[[dict], object], list[str]]] = {
    "a mistyped variation": (lambda _: None, ["--variation", "jes_upp"]),
    "an unknown stage": (lambda _: None, ["--rerun", "Vats"]),
    "an unknown site": (lambda _: None, ["--profile", "nowhere"]),
    "a misspelt key": (lambda one: one.update(analysys={}), []),
    "an unknown profile": (lambda one: one.update(use={"profiles": ["hop"]}), []),
    "a missing input file": (
        lambda one: one["data"]["datasets"][1].update(files=["data/none.root"]),
        [],
    ),
    "a missing column": (
        lambda one: one["analysis"]["stages"][0]["params"]["variables"][0].update(expr="MET_q"),
        [],
    ),
    "an unknown operation": (lambda one: one["analysis"]["stages"][0].update(op="hep.defin"), []),
    "an unknown pool": (
        lambda one: one["analysis"]["stages"][0].update(execution={"require": "gpu"}),
        [],
    ),
}
COMMANDS = {
    "run": [],
    "dry run": ["-n"],
    "translate": ["translate"],
    "why": ["why"],
    "explain": ["explain"],
    "check": ["check"],
}
#: These only say something.
ASKING = ["dry run", "why", "explain", "check"]
#: Who works in the folder, and since when.
LOCK = "smk/lock"
#: What was found in input files stays true, whatever refuses the workflow.
CACHE = ("smk/cache", "smk/cache/inputs.json")


def command(name: str) -> list[str]:
    """Return the words of a command on the workflow."""
    words = COMMANDS[name]
    return ["workflow.yaml", *words] if words[:1] in ([], ["-n"]) else [*words, "workflow.yaml"]


def seen(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return names, kinds, times and contents in a folder, but for the lock and the cache."""
    found = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        name = str(path.relative_to(folder))
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        if name not in (LOCK, *CACHE):
            found[name] = (status.st_mode, status.st_mtime_ns, content)
    return found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, small_files: Path, smk: Run) -> Path:
    """A project that has run once."""
    folder = tmp_path_factory.mktemp("refused") / "project"
    folder.mkdir()
    (folder / "data").symlink_to(small_files)
    (folder / "workflow.yaml").write_text(WORKFLOW)
    done = smk("workflow.yaml", "-j", "2", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def edit(project: Path) -> Callable[[Callable[[dict], object]], None]:
    """Edit the workflow of the project for one test."""

    def edited(change: Callable[[dict], object]) -> None:
        workflow = yaml.safe_load(WORKFLOW)
        change(workflow)
        (project / "workflow.yaml").write_text(yaml.safe_dump(workflow, sort_keys=False))

    return edited


@pytest.mark.parametrize(("reason", "name"), in_turn(REASONS, list(COMMANDS)))
def test_what_is_refused_changes_nothing(
    project: Path, edit: Callable[..., None], smk: Run, reason: str, name: str
) -> None:
    change, options = REASONS[reason]
    edit(change)
    before = seen(project / "build")
    done = smk(*command(name), *options, cwd=project)
    assert done.returncode, done.stdout
    assert seen(project / "build") == before

    new = smk(*command(name), *options, "--outdir", "some/where", cwd=project)
    assert new.returncode == done.returncode
    assert not (project / "some").exists()


@pytest.mark.parametrize("name", ASKING)
@pytest.mark.parametrize("edited", [False, True])
def test_what_is_asked_changes_nothing(
    project: Path, edit: Callable[..., None], smk: Run, name: str, edited: bool
) -> None:
    bins = {"low": 0, "high": 50, "nbins": 10}
    edit(
        lambda one: (
            one["analysis"]["stages"][3]["params"]["axes"][0].update(bins=bins) if edited else None
        )
    )
    also = [project / "build" / name for name in (LOCK, CACHE[1])]
    before = seen(project / "build"), [path.stat() for path in also]
    done = smk(*command(name), cwd=project)
    assert done.returncode == 0, done.stderr
    if name in ("why", "dry run"):
        assert ("would run" if edited else "Nothing to do") in done.stdout
    assert seen(project / "build") == before[0]
    assert [path.stat().st_mtime_ns for path in also] == [one.st_mtime_ns for one in before[1]]

    assert smk(*command(name), "--outdir", "new", cwd=project).returncode == 0
    assert not (project / "new").exists()


def test_an_empty_folder_stays_empty(
    project: Path, edit: Callable[..., None], smk: Run, tmp_path: Path
) -> None:
    edit(REASONS["a misspelt key"][0])
    before = seen(tmp_path)
    assert smk("workflow.yaml", "--outdir", str(tmp_path), cwd=project).returncode
    assert seen(tmp_path).keys() == before.keys()


def test_a_folder_that_cannot_be_written_answers(
    project: Path, edit: Callable[..., None], smk: Run
) -> None:
    edit(lambda _: None)
    folders = [project / "build", *(project / "build").rglob("*")]
    modes = {path: path.stat().st_mode for path in folders}
    try:
        for path in reversed(folders):
            path.chmod(modes[path] & ~0o222)
        for name in ASKING:
            assert smk(*command(name), cwd=project).returncode == 0
    finally:
        for path in folders:
            path.chmod(modes[path])


def test_what_was_asked_is_what_then_runs(project: Path, smk: Run, tmp_path: Path) -> None:
    shutil.copytree(project, tmp_path / "copy", symlinks=True)
    folder = tmp_path / "copy"
    workflow = yaml.safe_load(WORKFLOW)
    workflow["analysis"]["stages"][3]["params"]["axes"][0]["bins"]["nbins"] = 10
    (folder / "workflow.yaml").write_text(yaml.safe_dump(workflow))
    asked = json.loads(smk("why", "workflow.yaml", "--json", cwd=folder).stdout)["to_run"]
    done = smk("workflow.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert f"{len(asked)} jobs done" in done.stdout
    plan = yaml.safe_load((folder / "build/compile/plan.yaml").read_text())
    assert "nbins: 10" in (folder / "build/compile/plan.yaml").read_text(), plan["nodes"]


def test_what_is_compiled_names_the_build_folder(analysis: Path, smk: Run) -> None:
    workflow = yaml.safe_load(WORKFLOW)
    workflow["execution"] = {"pools": {"here": {"resources": {"memory": "1 GB"}}}}
    (analysis / "workflow.yaml").write_text(yaml.safe_dump(workflow))
    build = analysis / "build"
    identities = []
    for _ in range(2):
        assert smk("translate", "workflow.yaml", cwd=analysis).returncode == 0
        manifest = yaml.safe_load((build / "compile/inputs.manifest.yaml").read_text())
        identities.append((manifest["bundle_id"], manifest["plan_hash"]))
    assert identities[0] == identities[1]
    assert manifest["invocation"]["outdir"] == str(build)
    assert manifest["invocation"]["workflow_path"] == str(build / "smk/overlay.yaml")
    assert (build / "smk/overlay.yaml").is_file()
    for hook in manifest["hooks"]:
        for one in hook["artifacts"].values():
            content = (build / "compile" / one["path"]).read_bytes()
            assert hashlib.sha256(content).hexdigest() == one["sha256"]
    texts = [path.read_text() for path in (build / "compile").rglob("*") if path.is_file()]
    assert not [text for text in texts if "fasthep-smk-" in text]


VARIED = """
systematics:
  include_nominal: true
  variations: [{name: up, mode: plan, replace: {met: MET_px}}]
"""


def test_plans_of_an_earlier_compilation_go(analysis: Path, smk: Run) -> None:
    """A user's own files stay, whatever their names are, and what links lead to."""
    (analysis / "varied.yaml").write_text(WORKFLOW + VARIED)
    plans, other = analysis / "build/compile", analysis / "other"
    mine = [
        *(plans / "deps.sh", plans / "mine/plan.yaml", plans / "nominal/notes.txt"),
        *(plans / "inputs/mine.txt", other / "plan.yaml", other / "deps.yaml"),
    ]
    assert smk("translate", "varied.yaml", cwd=analysis).returncode == 0
    assert (plans / "up/plan.yaml").is_file()
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    (plans / "link").symlink_to(other)
    (plans / "self").symlink_to(".")
    (plans / "latest").symlink_to("nominal")
    assert smk("translate", "varied.yaml", cwd=analysis).returncode == 0
    assert (plans / "latest/plan.yaml").is_file()
    assert smk("translate", "workflow.yaml", cwd=analysis).returncode == 0
    assert [path.read_text() for path in mine] == ["mine"] * len(mine)
    assert (plans / "plan.yaml").is_file()
    assert not (plans / "up").exists()
    assert not (plans / "systematics.yaml").exists()
    assert [path.name for path in (plans / "nominal").iterdir()] == ["notes.txt"]


def test_a_snapshot_of_an_earlier_compilation_goes(analysis: Path, smk: Run) -> None:
    """FAST-HEP would compile it again in the place of what was compiled since."""
    build = analysis / "build"
    assert smk("translate", "workflow.yaml", cwd=analysis).returncode == 0
    (build / "compile/inputs").mkdir()
    (build / "compile/inputs/.hepflow-snapshot").write_text("")
    assert smk("translate", "workflow.yaml", cwd=analysis).returncode == 0
    assert not (build / "compile/inputs").exists()


@pytest.mark.parametrize("name", ["compile/plan.yaml", "including.yaml"])
def test_the_workflow_is_not_replaced_by_its_plan(analysis: Path, smk: Run, name: str) -> None:
    (analysis / "compile").mkdir()
    workflow = analysis / "compile/plan.yaml"
    workflow.write_text(WORKFLOW)
    (analysis / "including.yaml").write_text("version: 1.0\ninclude: [compile/plan.yaml]\n")
    done = smk(name, "-o", ".", cwd=analysis)
    assert done.returncode == 1
    assert "would be overwritten" in done.stderr
    assert str(workflow) in done.stderr
    assert workflow.read_text() == WORKFLOW


@pytest.mark.parametrize(
    "content", ["", "5", '["compile/plan.yaml/below"]', '["compile/../data/dy_0.root"]']
)
def test_a_damaged_list_of_plans_is_made_anew(analysis: Path, smk: Run, content: str) -> None:
    assert smk("translate", "workflow.yaml", cwd=analysis).returncode == 0
    note = analysis / "build/smk/compiled.json"
    good = note.read_text()
    note.write_text(content)
    assert smk("translate", "workflow.yaml", cwd=analysis).returncode == 0
    note.write_text(files.seal({"files": json.loads(content or "[]")}))
    assert smk("translate", "workflow.yaml", cwd=analysis).returncode == 0
    assert note.read_text() == good
    assert (analysis / "data/dy_0.root").is_file()


@pytest.mark.long
def test_a_call_that_is_killed_at_any_time(project: Path, smk: Run, tmp_path: Path) -> None:
    shutil.copytree(project, tmp_path / "copy", symlinks=True)
    folder = tmp_path / "copy"
    (folder / "workflow.yaml").write_text(WORKFLOW)
    for number in range(12):
        words = [sys.executable, "-m", "fasthep_smk", "translate", "workflow.yaml"]
        call = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL)
        time.sleep(0.3 + 0.2 * number)
        os.kill(call.pid, signal.SIGKILL)
        call.wait()
        assert "Nothing to do" in smk("why", "workflow.yaml", cwd=folder).stdout
    assert "everything was up to date" in smk("workflow.yaml", cwd=folder).stdout
    assert (folder / "build/compile/plan.yaml").is_file()
