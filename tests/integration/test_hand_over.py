"""Results as inputs of a user's own Snakefile: what is missing is made, what is old runs again."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from fasthep_smk.cli import hand_over
from fasthep_smk.storage import layout
from tests.integration.conftest import WORKFLOW, Run
from tests.support import warm
from tests.support.forms import chosen, in_turn, some
from tests.support.own_op import add_own_op

pytestmark = pytest.mark.integration

SNAKEFILE = """\
module fasthep:
    snakefile: "build/smk/results.smk"
    prefix: "build"

use rule * from fasthep as fasthep_*

rule fit:
    default_target: True
    input: "build/artifacts/histograms/Met.pkl"
    output: "fit.txt"
    shell: "sha256sum < {input} > {output}"
"""
MET = "build/artifacts/histograms/Met.pkl"
SKIM = "build/artifacts/files/skim/dy/0_0.root"
#: The own operation reads a file that only a run can find out, and a parameter names another.
OP = """\
from pathlib import Path
SPEC = {"name": "own.op", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}


def run(*, stream, ctx=None):
    factor = float(Path("sf", "b" + ".txt").read_text())
    stream["MET_px"] = stream["MET_px"] * factor
    return stream
"""


def snakemake(*words: str, cwd: Path, cold: bool = False) -> subprocess.CompletedProcess[str]:
    """Run plain Snakemake with our tested package; if ``cold``, as from a fresh shell."""
    names = ("PATH", "HOME", "PYTHONPATH")
    fresh = {name: os.environ[name] for name in names if name in os.environ}
    env = fresh if cold else None
    return warm.run(*words, cwd=cwd, env=env, cold=cold, program=warm.SNAKEMAKE)


class Project:
    """A folder with a workflow, and a Snakefile of the user's that goes on from its results."""

    def __init__(self, folder: Path, smk: Run) -> None:
        self.folder = folder
        self.smk = smk

    def call(self, *words: str, cold: bool = False) -> subprocess.CompletedProcess[str]:
        return snakemake("-c", "2", *words, cwd=self.folder, cold=cold)

    def runs(self, *words: str, cold: bool = False) -> list[str]:
        """Run the user's Snakefile; return which rules ran, in their order."""
        done = self.call(*words, cold=cold)
        assert done.returncode == 0, done.stderr
        said = re.findall(r"^(?:local)?rule (\w+):$", done.stderr, re.MULTILINE)
        return [one.removeprefix("fasthep_") for one in said]

    def edit(self, change: Callable[[dict], object]) -> None:
        path = self.folder / "workflow.yaml"
        workflow = yaml.safe_load(path.read_text())
        change(workflow)
        path.write_text(yaml.safe_dump(workflow, sort_keys=False))

    def fit_is_right(self) -> bool:
        """Whether the fit is made of the histogram of the workflow as it is now."""
        fresh = self.folder.with_name("fresh")
        done = self.smk("workflow.yaml", "-q", "--outdir", str(fresh), cwd=self.folder)
        assert done.returncode == 0, done.stderr
        right = (fresh / "artifacts/histograms/Met.pkl").read_bytes()
        shutil.rmtree(fresh)
        fitted = (self.folder / "fit.txt").read_text().split()[0]
        return hashlib.sha256(right).hexdigest() == fitted


ALL = ["analysis", "results", "fit"]


def bins(number: int) -> Callable[[dict], object]:
    """Return the edit of a histogram's bins."""
    return lambda one: next(stage for stage in one["analysis"]["stages"] if stage["id"] == "Met")[
        "params"
    ]["axes"][0]["bins"].update(nbins=number)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, small_files: Path, smk: Run) -> Path:
    """A project that was translated, and built by the user's Snakefile alone."""
    folder = tmp_path_factory.mktemp("hand_over") / "project"
    folder.mkdir()
    (folder / "data").symlink_to(small_files)
    (folder / "workflow.yaml").write_text(WORKFLOW)
    add_own_op(folder, OP)
    (folder / "sf").mkdir()
    (folder / "sf/b.txt").write_text("2.0")
    (folder / "Snakefile").write_text(SNAKEFILE)
    assert smk("translate", "workflow.yaml", cwd=folder).returncode == 0
    assert Project(folder, smk).runs() == ALL
    assert (folder / SKIM).exists()
    return folder


@pytest.fixture
def project(finished: Path, tmp_path: Path, smk: Run) -> Iterator[Project]:
    """The project, which is afterwards as it was before."""
    subprocess.run(["cp", "-a", finished, tmp_path / "kept"], check=True)
    yield Project(finished, smk)
    shutil.rmtree(finished)
    subprocess.run(["cp", "-a", tmp_path / "kept", finished], check=True)


def test_nothing_runs_where_nothing_has_changed(project: Project) -> None:
    assert project.runs(cold=True) == []
    assert "everything was up to date" in project.smk("workflow.yaml", cwd=project.folder).stdout
    assert project.runs() == []
    assert project.runs(MET, SKIM) == []


EDITS: dict[str, Callable[[Project], object]] = {
    "the workflow": lambda one: one.edit(bins(10)),
    "a module": lambda one: (one.folder / "own_ops.py").write_text(OP.replace("factor", "scale")),
    "a file that an operation reads": lambda one: (one.folder / "sf/b.txt").write_text("3.0"),
}


@pytest.mark.parametrize("edit", chosen(EDITS, lambda edit: edit == "the workflow"))
def test_what_is_old_runs_again(project: Project, edit: str) -> None:
    EDITS[edit](project)
    assert project.runs() == ALL
    assert project.fit_is_right()
    assert project.runs() == []


def limit_of_cores(project: Project) -> object:
    return json.loads((project.folder / "build" / layout.LAST_RUN).read_text())["cores"]


@pytest.mark.parametrize("where", ["nowhere", "beside the workflow", "in the environment"])
def test_cores_count_whatever_names_this_machine(
    project: Project, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project.folder / ("profiles/default" if where == "beside the workflow" else "mine")
    folder.mkdir(parents=True)
    (folder / "pools.yaml").write_text("machine: {cpus: 16, memory: 16GB}\n")
    (folder / "config.yaml").write_text("executor: local\n")
    if where == "in the environment":
        monkeypatch.setenv("SNAKEMAKE_PROFILE", str(folder))
    project.edit(bins(10))
    assert project.runs() == ALL
    assert limit_of_cores(project) == 2


@pytest.mark.long
def test_a_translation_alone_hides_no_edit(project: Project) -> None:
    (project.folder / "sf/b.txt").write_text("3.0")
    assert project.smk("translate", "workflow.yaml", cwd=project.folder).returncode == 0
    assert project.runs() == ALL
    assert project.fit_is_right()


@pytest.mark.long
def test_an_edit_that_is_undone_is_fitted_again(project: Project) -> None:
    """The earlier histogram comes back with its time, which is before that of the fit."""
    project.edit(bins(10))
    assert project.runs() == ALL
    project.edit(bins(20))
    assert project.runs() == ALL
    assert project.fit_is_right()
    project.edit(bins(10))
    assert project.smk("workflow.yaml", "-q", cwd=project.folder).returncode == 0
    assert project.runs() == ["fit"]
    assert project.fit_is_right()


def deleted(path: Path) -> None:
    path.unlink()


def truncated(path: Path) -> None:
    os.truncate(path, 100)


@pytest.mark.parametrize(
    ("name", "how"),
    some(in_turn([MET, SKIM, "build/artifacts/plots/Met.png"], [deleted, truncated]), 1),
)
def test_what_was_lost_is_made_again(
    project: Project, name: str, how: Callable[[Path], None]
) -> None:
    path = project.folder / name
    content = path.read_bytes()
    how(path)
    assert project.runs(name)[0] == "analysis"
    if name != SKIM:  # a ROOT file knows when it was made
        assert path.read_bytes() == content
    assert project.runs(name) == []


def test_a_histogram_that_is_not_made_any_more_is_refused(project: Project) -> None:
    project.edit(lambda one: one["analysis"]["stages"][-1].update(id="Mit"))
    refused = project.call()
    assert refused.returncode == 1
    assert "no stage of the analysis makes this file any more" in refused.stderr
    assert project.smk("workflow.yaml", "-q", cwd=project.folder).returncode == 0
    assert project.call().returncode == 1


def test_one_variation_is_not_all(project: Project) -> None:
    weight = {"multiply": ["1.5"]}
    varied = {"name": "up", "mode": "plan", "group": "w", "direction": "up", "weight": weight}

    def add(one: dict) -> None:
        one["analysis"]["stages"][-1]["params"]["weight_expr"] = "EventWeight"
        one["systematics"] = {"include_nominal": True, "variations": [varied]}

    project.edit(add)
    text = SNAKEFILE.replace("artifacts/", "artifacts/up/")
    (project.folder / "Snakefile").write_text(text)
    assert project.runs() == ALL
    project.edit(bins(10))
    words = ("workflow.yaml", "--variation", "nominal", "-q")
    alone = project.smk(*words, cwd=project.folder)
    assert alone.returncode == 0
    assert "; the results of other variations are unchanged" in alone.stdout
    refused = project.call()
    assert refused.returncode == 1
    assert "only variation 'nominal' was translated; to translate all, type" in refused.stderr
    assert project.smk("translate", "workflow.yaml", cwd=project.folder).returncode == 0
    assert project.runs() == ALL


def test_a_failure_costs_no_earlier_result(project: Project) -> None:
    before = {
        path: path.read_bytes()
        for path in (project.folder / "build/artifacts/histograms").glob("*.pkl")
    }
    (project.folder / "own_ops.py").write_text(OP.replace("return stream", "raise ValueError"))
    failed = project.call()
    assert failed.returncode == 1
    assert "stage 'Own' (own.op) failed: ValueError" in failed.stderr
    (project.folder / "own_ops.py").write_text(OP)
    assert project.runs() == ALL
    assert {path: path.read_bytes() for path in before} == before


def test_a_workflow_that_is_wrong_is_refused(project: Project) -> None:
    project.edit(lambda one: one["analysis"]["stages"][-1].update(parms={}))
    refused = project.call()
    assert refused.returncode == 1
    assert "did you mean 'params'" in refused.stderr


def test_any_name_of_the_build_folder(analysis: Path, smk: Run) -> None:
    name = "notes build ü$x's"
    (analysis / "notes").write_text("mine")
    done = smk("translate", "workflow.yaml", "-o", name, cwd=analysis)
    assert done.returncode == 0, done.stderr
    text = SNAKEFILE.replace('"build', f'"{name}').replace("{input}", "{input:q}")
    (analysis / "Snakefile").write_text(text)
    assert Project(analysis, smk).runs(cold=True) == ALL
    assert (analysis / "notes").read_text() == "mine"
    assert Project(analysis, smk).runs() == []


@pytest.mark.long
def test_without_a_prefix_the_names_are_the_same(project: Project) -> None:
    text = SNAKEFILE.replace('    prefix: "build"\n', "")
    (project.folder / "Snakefile").write_text(text)
    project.edit(bins(10))
    assert project.runs() == ALL
    assert project.fit_is_right()


def test_a_wrong_prefix_is_refused(project: Project) -> None:
    text = SNAKEFILE.replace('    prefix: "build"\n', '    prefix: "elsewhere"\n')
    (project.folder / "Snakefile").write_text(text)
    refused = project.call()
    assert refused.returncode == 1
    assert 'prefix: "build"' in refused.stderr


def test_a_dry_run_changes_nothing(project: Project) -> None:
    project.edit(bins(10))
    before = (project.folder / MET).read_bytes()
    asked = project.call("-n")
    assert asked.returncode == 0
    assert "fasthep_analysis" in asked.stdout + asked.stderr
    assert (project.folder / MET).read_bytes() == before
    assert project.runs() == ALL


def test_the_rules_of_the_analysis_say_where_they_run(project: Project) -> None:
    build = project.folder / "build"
    other = project.folder / "other"
    other.mkdir()
    refused = snakemake("-s", "../build/smk/Snakefile", "-n", cwd=other)
    assert refused.returncode == 1
    assert f"add  --directory {build}" in refused.stdout + refused.stderr
    done = snakemake("-s", "build/smk/Snakefile", "-n", "-d", "build", cwd=project.folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("said", "runs_here"),
    [
        ("", True),
        ("execution: {strategy: threads}\n", True),
        ("execution: {strategy: slurm}\n", False),
    ],
)
def test_the_strategy_of_the_workflow_counts(
    analysis: Path, said: str, runs_here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow = analysis / "workflow.yaml"
    workflow.write_text(said + workflow.read_text())
    monkeypatch.chdir(analysis)
    given = ["workflow.yaml", "--outdir", "build"]
    assert hand_over._runs_here(given) is runs_here
    assert hand_over._runs_here([*given, "--profile", "local"])
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "htcondor")
    assert not hand_over._runs_here(given)
