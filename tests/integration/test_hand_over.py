"""Results as inputs of a user's own Snakefile: what is missing is built, what is old runs again."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.integration.conftest import WORKFLOW, Run

pytestmark = pytest.mark.integration

SNAKEFILE = """\
module fasthep:
    snakefile: "build/smk/Snakefile"
    prefix: "build"

use rule * from fasthep as fasthep_*

rule fit:
    default_target: True
    input: "build/artifacts/histograms/Met.pkl"
    output: "fit.txt"
    shell: "sha256sum {input} > {output}"
"""
MET = "build/artifacts/histograms/Met.pkl"
SKIM = "build/artifacts/files/skim/dy/0_0.root"


def snakemake(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run plain Snakemake as from a fresh shell, with the fasthep-smk that is tested."""
    command = [str(Path(sys.executable).parent / "snakemake"), *words]
    names = ("PATH", "HOME", "PYTHONPATH")
    env = {name: os.environ[name] for name in names if name in os.environ}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)


def edited(folder: Path, change: Callable[[dict], object]) -> None:
    workflow = yaml.safe_load(WORKFLOW)
    change(workflow)
    (folder / "workflow.yaml").write_text(yaml.safe_dump(workflow, sort_keys=False))


def bins(number: int) -> Callable[[dict], object]:
    """Return the edit of a histogram's bins."""
    return lambda one: one["analysis"]["stages"][3]["params"]["axes"][0]["bins"].update(
        nbins=number
    )


def label(text: str) -> Callable[[dict], object]:
    """Return the edit of a plot's label: no histogram comes out differently."""
    return lambda one: one["styles"]["met"]["axes"]["x"].update(name=text)


class Project:
    """A folder with a workflow, and a Snakefile of the user's that goes on from its results."""

    def __init__(self, folder: Path, smk: Run) -> None:
        self.folder = folder
        self._smk = smk

    def translate(self, *options: str) -> None:
        done = self._smk("translate", "workflow.yaml", *options, cwd=self.folder)
        assert done.returncode == 0, done.stderr

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        return snakemake("-c", "2", *words, cwd=self.folder)

    def runs(self, *words: str) -> dict[str, int]:
        """Run the user's Snakefile; return how many jobs of each rule ran, but for the last."""
        done = self.call(*words)
        assert done.returncode == 0, done.stderr
        said = re.findall(r"^(?:local)?rule (\w+):$", done.stderr, re.MULTILINE)
        return dict(Counter(one.removeprefix("fasthep_") for one in said))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, small_files: Path, smk: Run) -> Path:
    """A project that was translated, and built by the user's Snakefile alone."""
    folder = tmp_path_factory.mktemp("hand_over") / "project"
    folder.mkdir()
    (folder / "data").symlink_to(small_files)
    (folder / "workflow.yaml").write_text(WORKFLOW)
    (folder / "Snakefile").write_text(SNAKEFILE)
    assert smk("translate", "workflow.yaml", cwd=folder).returncode == 0
    done = snakemake("-c", "2", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "fit.txt").exists()
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
    assert project.runs() == {}
    assert "everything was up to date" in project._smk("workflow.yaml", cwd=project.folder).stdout
    assert project.runs() == {}
    assert project.runs(MET, SKIM) == {}


def test_an_edit_is_not_passed_over(project: Project) -> None:
    before = (project.folder / "fit.txt").read_text()
    edited(project.folder, bins(10))
    refused = project.call()
    assert refused.returncode == 1
    assert f"{project.folder}/workflow.yaml has changed since the workflow was translated: " in (
        refused.stderr
    )
    assert "fasthep-smk translate workflow.yaml" in refused.stderr
    assert (project.folder / "fit.txt").read_text() == before

    project.translate()
    ran = project.runs()
    assert ran.pop("finish") == ran.pop("hand_over") == ran.pop("results") == ran.pop("fit") == 1
    assert list(ran.values()) == [3]  # the partitions
    assert (project.folder / "fit.txt").read_text() != before
    assert project.runs() == {}


def test_an_edit_of_what_was_never_handed_over(project: Project) -> None:
    before = (project.folder / SKIM).stat().st_mtime_ns
    edited(
        project.folder,
        lambda one: one["analysis"]["stages"][2]["params"].update(selection={"All": ["met > 9"]}),
    )
    project.translate()
    assert set(project.runs(SKIM)) == {"stages_Vars_to_Met", "hand_over", "files"}
    assert (project.folder / SKIM).stat().st_mtime_ns > before
    assert project.runs(SKIM) == {}
    assert "finish" in project.runs()


def test_an_edit_that_another_run_has_made(project: Project) -> None:
    before = (project.folder / "fit.txt").read_text()
    edited(project.folder, bins(10))
    assert project._smk("workflow.yaml", cwd=project.folder).returncode == 0
    assert project.runs() == {"hand_over": 1, "results": 1, "fit": 1}
    other = (project.folder / "fit.txt").read_text()
    assert other != before

    edited(project.folder, bins(20))  # and undone: the partitions are not computed again
    project.translate()
    ran = project.runs()
    assert set(ran) <= {"finish", "hand_over", "results", "fit"}
    assert ran["fit"] == 1
    assert project.runs() == {}


def test_a_label_runs_no_partition(project: Project) -> None:
    edited(project.folder, label("MET"))
    project.translate()
    assert set(project.runs()) == {"finish", "hand_over", "results", "fit"}
    assert project.runs() == {}


@pytest.mark.parametrize("gone", [MET, SKIM, "build/artifacts/plots/Met.png"])
def test_what_was_deleted_is_made_again(project: Project, gone: str) -> None:
    path = project.folder / gone
    assert project.call(gone).returncode == 0
    content = path.read_bytes()
    path.unlink()
    ran = project.runs(gone)
    assert set(ran) - {"hand_over"} in ({"results"}, {"files"})
    assert path.exists()
    if gone != SKIM:  # a ROOT file knows when it was made
        assert path.read_bytes() == content
    assert project.runs(gone) == {}
    assert "Nothing to do" in project._smk("why", "workflow.yaml", cwd=project.folder).stdout


def test_a_failure_costs_no_earlier_result(project: Project) -> None:
    before = {
        path: path.read_bytes()
        for path in (project.folder / "build/artifacts").rglob("*")
        if path.is_file()
    }
    edited(project.folder, bins(10))
    project.translate()
    shutil.move(project.folder / "build/smk/plans", project.folder / "plans")
    failed = project.call()
    assert failed.returncode == 1
    assert {path: path.read_bytes() for path in before if path.exists()} == before
    shutil.move(project.folder / "plans", project.folder / "build/smk/plans")
    assert project.runs()["fit"] == 1


def test_an_included_run_and_another_one_do_not_meet(project: Project) -> None:
    with (project.folder / "build/smk/lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = project.call()
    assert refused.returncode == 1
    assert f"another run is in progress in {project.folder / 'build'}" in refused.stderr


@pytest.mark.parametrize("prefix", ["", '    prefix: "elsewhere"\n'])
def test_a_module_without_the_prefix_is_refused(project: Project, prefix: str) -> None:
    text = SNAKEFILE.replace('    prefix: "build"\n', prefix)
    (project.folder / "Snakefile").write_text(text)
    refused = project.call()
    assert refused.returncode == 1
    assert 'load it as a module with  prefix: "build"' in refused.stderr


def test_the_rules_work_from_any_folder(analysis: Path, smk: Run) -> None:
    assert smk("translate", "workflow.yaml", cwd=analysis).returncode == 0
    other = analysis / "other"
    other.mkdir()
    done = snakemake("-s", "../build/smk/Snakefile", "-c", "2", cwd=other)
    assert done.returncode == 0, done.stderr
    assert (analysis / MET).exists()
    assert {path.name for path in other.iterdir()} <= {".snakemake"}
    assert "Nothing to do" in smk("why", "workflow.yaml", cwd=analysis).stdout
    done = snakemake("-s", "build/smk/Snakefile", "-c", "2", "-d", "other", cwd=analysis)
    assert done.returncode == 1
    assert "leave out --directory" in done.stderr


def test_variations_have_rules_of_their_own(analysis: Path, smk: Run) -> None:
    def add(one: dict) -> None:
        weight = {"multiply": ["EventWeight"]}
        one["analysis"]["stages"][3]["params"]["weight_expr"] = "EventWeight"
        varied = {"name": "up", "mode": "plan", "group": "w", "direction": "up", "weight": weight}
        one["systematics"] = {"include_nominal": True, "variations": [varied]}

    edited(analysis, add)
    done = smk("translate", "workflow.yaml", cwd=analysis)
    assert done.returncode == 0, done.stderr
    text = SNAKEFILE.replace("artifacts/", "artifacts/up/")
    (analysis / "Snakefile").write_text(text)
    done = snakemake("-c", "2", cwd=analysis)
    assert done.returncode == 0, done.stderr
    assert (analysis / "build/artifacts/up/histograms/Met.pkl").exists()
    assert not (analysis / "build/artifacts/nominal/histograms/Met.pkl").exists()
    done = snakemake("-c", "2", cwd=analysis)
    assert "Nothing to be done" in done.stderr
