"""Files that are edited while a run goes on: its results are those of one version of all files.

The operation takes a moment for each partition. As soon as the first one is done, something is
edited; the same call goes on with what is there now.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import events, warm
from tests.support.compare import compare_builds
from tests.support.forms import some

pytestmark = pytest.mark.integration

WORKFLOW = """\
include: [styles.yaml]
version: "1.0"
use: {profiles: [hep]}
registry:
  transforms:
    my.scale: {spec: "my_ops:SPEC", impl: "my_ops:scale"}
data:
  defaults: {eventtype: mc, tree_primary: events}
  datasets:
    - {name: dy, files: [data/a.root, data/b.root, data/c.root]}
sources:
  events: {kind: root_tree, tree: events, branches: [MET_px]}
analysis:
  stages:
    - {id: Scaled, op: my.scale, params: {output: Scaled}}
    - id: Hist
      op: hep.hist
      params:
        axes: [{name: x, source: Scaled, type: regular, bins: {low: -200, high: 200, nbins: 40}}]
"""
MODULE = """\
import time
from pathlib import Path
import awkward as ak

SPEC = {
    "name": "my.scale", "kind": "transform", "version": "1.0",
    "input": {"name": "stream", "kind": "event_stream", "required": True},
    "params": {"output": {"required": True}},
    "result": {"kind": "event_stream"},
    "provides": {"symbols": [{"from": "params.output", "kind": "field_list"}]},
}
FACTOR = 1.5

def scale(*, stream, output, **_):
    factor = FACTOR * float(Path("sf" + ".txt").read_text())
    time.sleep(0.7)
    return ak.with_field(stream, stream.MET_px * factor, output)
"""


class Project:
    """The analysis in a folder, and a run of it in which something is edited."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for seed, name in enumerate(("a", "b", "c")):
            events.zmumu_file(folder / f"data/{name}.root", 60, seed)
        (folder / "my_ops.py").write_text(MODULE)
        (folder / "sf.txt").write_text("1")
        (folder / "workflow.yaml").write_text(WORKFLOW)
        (folder / "styles.yaml").write_text("styles: {}\n")

    def start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "fasthep_smk", "workflow.yaml"]
        return subprocess.Popen(
            [*command, "-j", "1", "--bundle", "1"],
            cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def finished(self) -> list[Path]:
        return list(self.folder.glob("build/smk/work/stage*/dy/*/record.json"))

    def run(self, edit: Callable[[Path], None]) -> str:
        """Run to the end, with an edit as soon as the first partition is done."""
        process = self.start()
        while process.poll() is None and not self.finished():
            time.sleep(0.02)
        edit(self.folder)
        printed, _ = process.communicate(timeout=120)
        assert process.returncode == 0, printed
        return printed

    def agrees_with_fresh_run(self) -> bool:
        self.call("workflow.yaml", "--outdir", "fresh", "-j", "2")
        return compare_builds(self.folder / "fresh", self.folder / "build") == []

    def why(self) -> str:
        return self.call("why", "workflow.yaml")

    def call(self, *arguments: str) -> str:
        """Run with nobody who edits; return what is printed."""
        done = warm.run(*arguments, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def replaced(name: str, old: str, new: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / name
        path.write_text(path.read_text().replace(old, new))

    return edit


def another_input(folder: Path) -> None:
    events.zmumu_file(folder / "new.root", 60, 77)
    (folder / "new.root").replace(folder / "data/b.root")


@pytest.mark.parametrize(
    "edit",
    some(
        [
            replaced("my_ops.py", "FACTOR = 1.5", "FACTOR = 2.5"),
            replaced("sf.txt", "1", "3"),
            another_input,
        ],
        1,
    ),
    ids=["a module", "a file that it reads", "an input file"],
)
def test_results_are_of_one_version(project: Project, edit: Callable[[Path], None]) -> None:
    printed = project.run(edit)
    assert "changed" in printed, printed
    assert project.agrees_with_fresh_run()
    assert "Nothing to do" in project.why()


def test_an_edit_that_is_undone_brings_back_no_mixed_result(project: Project) -> None:
    project.run(replaced("my_ops.py", "FACTOR = 1.5", "FACTOR = 2.5"))
    replaced("my_ops.py", "FACTOR = 2.5", "FACTOR = 1.5")(project.folder)
    project.call("workflow.yaml")
    assert project.agrees_with_fresh_run()


def test_an_input_that_is_put_back_with_its_old_time_does_not_count_as_unchanged(
    project: Project,
) -> None:
    path = project.folder / "data/b.root"
    content, status = path.read_bytes(), path.stat()
    project.run(another_input)
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    project.call("workflow.yaml")
    assert project.agrees_with_fresh_run()


def test_a_job_that_has_read_half_of_a_file_runs_again(project: Project) -> None:
    """An editor empties a file before it writes it; the operation reads it in between."""
    careful = 'factor = FACTOR * float(Path("sf" + ".txt").read_text())'
    careless = """\
text = Path("sf" + ".txt").read_text()
    while not Path("sf" + ".txt").stat().st_size:
        time.sleep(0.01)
    factor = FACTOR * float(text)"""
    (project.folder / "my_ops.py").write_text(MODULE.replace(careful, careless))

    def edit(folder: Path) -> None:
        (folder / "sf.txt").write_text("")
        time.sleep(2)
        (folder / "sf.txt").write_text("3")

    printed = project.run(edit)
    assert "this may be why the job failed: ValueError" in printed, printed
    assert project.agrees_with_fresh_run()


@pytest.mark.parametrize("name", some(["workflow.yaml", "styles.yaml"], 1))
def test_a_workflow_that_is_edited_counts_from_the_next_call_on(
    project: Project, name: str
) -> None:
    edit = (
        replaced(name, "nbins: 40", "nbins: 20")
        if name == "workflow.yaml"
        else replaced(name, "styles: {}", "analysis: {globals: {seed: 3}}")
    )
    printed = project.run(edit)
    assert f"{name} was edited during the run" in printed, printed
    assert "would run" in project.why()
    project.call("workflow.yaml")
    assert project.agrees_with_fresh_run()
