"""What a library looks up for itself is no input: nothing runs again in another shell or from cron.

The operation uses matplotlib, correctionlib, fsspec, onnxruntime and uproot as analysts do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.integration.conftest import Run
from tests.support import events
from tests.support.project import once, shared_base

pytestmark = pytest.mark.integration

WORKFLOW = """\
version: "1.0"
use: {profiles: [hep]}
registry:
  transforms:
    my.use: {spec: "my_ops:SPEC", impl: "my_ops:use"}
data:
  defaults: {eventtype: mc, tree_primary: events}
  datasets:
    - {name: dy, files: [data/dy.root, data/more.root]}
sources:
  events: {kind: root_tree, tree: events, branches: [MET_px]}
analysis:
  stages:
    - {id: Used, op: my.use, params: {output: Used, log: own.log, folder: ./debug}}
    - id: Hist
      op: hep.hist
      params:
        axes: [{name: x, source: Used, type: regular, bins: {low: -200, high: 200, nbins: 40}}]
"""
MODULE = """\
import logging, os, sqlite3, subprocess, tempfile, warnings
from pathlib import Path
import awkward as ak
import correctionlib.schemav2 as cs
import fsspec
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
import uproot

SPEC = {
    "name": "my.use", "kind": "transform", "version": "1.0",
    "input": {"name": "stream", "kind": "event_stream", "required": True},
    "params": {"output": {"required": True}},
    "result": {"kind": "event_stream"},
    "provides": {"symbols": [{"from": "params.output", "kind": "field_list"}]},
}

def use(*, stream, output, log, folder, **_):
    with open(log, "a") as lines:  # a file that a parameter names, and one in such a folder
        lines.write("here\\n")
    Path(folder).mkdir(exist_ok=True)
    Path(folder, "x.txt").write_text(str(os.getpid()))
    warnings.warn("look at the source", stacklevel=1)
    logging.getLogger(__name__).error("and at this line", stack_info=True)
    figure, axes = plt.subplots()
    axes.hist(np.asarray(stream.MET_px), label=r"$p_x$")
    axes.legend()
    figure.savefig("debug.png")
    plt.close(figure)
    with fsspec.open("notes.txt", "w") as stream_out:
        stream_out.write(os.path.expanduser("~"))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "x.txt").write_text("1")
        assert Path(folder, "x.txt").read_text() == "1"
    with tempfile.NamedTemporaryFile() as scratch, tempfile.TemporaryFile() as nameless:
        scratch.write(b"1")
        nameless.write(b"1")
    with open("more.log", "a+") as lines:  # it is read, and appended to
        lines.seek(0)
        lines.write(lines.read() or "here\\n")
    Path("next.txt").write_text("1")
    os.replace("next.txt", "final.txt")
    Path("latest.txt").unlink(missing_ok=True)
    os.symlink("final.txt", "latest.txt")
    assert Path("latest.txt").read_text() == "1"
    subprocess.run(["mkdir", "-p", "scratch/deep"], check=True)
    subprocess.run("date +%N > scratch/deep/made.txt; ls scratch . > listed.txt", shell=True)
    subprocess.run(["env"], env=os.environ | {"OWN": "1"}, stdout=subprocess.DEVNULL)
    output_of = cs.Variable(name="o", type="real")
    correction = cs.Correction(name="sf", version=1, inputs=[], output=output_of, data=1.5)
    found = correction.to_evaluator().evaluate()
    with uproot.open("data/dy.root") as file:
        entries = file["events"].num_entries
    assert entries and onnxruntime.get_available_providers()
    environment = {**os.environ, "OWN": "1"}
    assert dict(os.environ.items()).keys() == os.environ.copy().keys()
    assert environment.keys() - {"OWN"} == dict(os.environ).keys()
    assert [os.environ.get(name) for name in ("HOME", "TERM", "COLUMNS", "LANG")]
    subprocess.run(["cp", "made.txt", "copy.txt"], check=False)
    subprocess.run(["sh", "-c", "date +%N > made.txt"], check=True)
    with sqlite3.connect("log.db") as log:
        log.execute("create table if not exists t (x)")
        log.execute("insert into t values (1)")
    return ak.with_field(stream, stream.MET_px * found, output)
"""


def call(folder: Path, *arguments: str, variables: Mapping[str, str] | None = None) -> str:
    command = [sys.executable, "-m", "fasthep_smk", *arguments]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
    return done.stdout


@pytest.fixture
def finished(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(folder: Path) -> None:
        events.zmumu_file(folder / "data/dy.root", 200, 1)
        events.zmumu_file(folder / "data/more.root", 100, 2)
        (folder / "workflow.yaml").write_text(WORKFLOW)
        (folder / "my_ops.py").write_text(MODULE)
        call(folder, "workflow.yaml")

    shared = once(shared_base(tmp_path_factory) / "unnoticed", make)
    shutil.copytree(shared, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.parametrize(
    "variables",
    [
        {**os.environ},
        {**os.environ, "HOME": "/nonexistent", "USER": "other", "TMPDIR": "/var/tmp"},
        {**os.environ, "TERM": "dumb", "COLUMNS": "40", "LINES": "10", "LANG": "de_DE.UTF-8"},
        {"PATH": "/usr/bin:/bin"},  # as from cron
    ],
    ids=["again", "another home", "another terminal", "cron"],
)
def test_nothing_runs_again(finished: Path, variables: Mapping[str, str]) -> None:
    assert "Nothing to do" in call(finished, "why", "workflow.yaml", variables=variables)


def test_files_that_the_operation_writes_are_no_inputs(finished: Path) -> None:
    for name in ("debug.png", "notes.txt"):
        (finished / name).write_text("somebody else's now")
    assert "Nothing to do" in call(finished, "why", "workflow.yaml")


def test_a_file_that_jobs_have_written_is_an_input_once_it_is_edited(finished: Path) -> None:
    (finished / "own.log").write_text("somebody else's now")
    assert "the file own.log is new" in call(finished, "why", "workflow.yaml")


def test_jobs_that_write_one_file_run_once(finished: Path) -> None:
    log = (finished / "own.log").read_text().splitlines()
    assert log == ["here", "here"]  # one line for each partition


def test_a_file_that_jobs_wrote_once_and_only_read_now_is_an_input(
    finished: Path, smk: Run
) -> None:
    def run() -> None:
        done = smk("workflow.yaml", cwd=finished)
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-5000:]}"

    # Without the libraries, whose imports take most of the time of such a job.
    reads = (
        "from pathlib import Path\nimport awkward as ak\n\n"
        + MODULE[MODULE.index("SPEC") : MODULE.index("def use")]
        + "def use(*, stream, output, log, folder, **_):\n"
        "    count = float(Path(log).read_text().count('here'))\n"
        "    return ak.with_field(stream, stream.MET_px * count, output)\n"
    )
    (finished / "my_ops.py").write_text(reads)
    run()
    assert "Nothing to do" in smk("why", "workflow.yaml", cwd=finished).stdout
    (finished / "own.log").write_text("here here here")
    run()
    edited = (finished / "build/artifacts/histograms/Hist.pkl").read_bytes()
    shutil.rmtree(finished / "build")
    run()
    assert (finished / "build/artifacts/histograms/Hist.pkl").read_bytes() == edited
