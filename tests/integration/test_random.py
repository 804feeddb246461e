"""Random numbers from ``rng(ctx)``: the same however jobs are cut and wherever they run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import uproot

from tests.integration.conftest import Run
from tests.support import warm
from tests.support.compare import compare_builds
from tests.support.forms import LONG

pytestmark = pytest.mark.integration

OPS = """\
import awkward as ak
from fasthep_smk import rng
SPEC = {"name": "own.smear", "kind": "transform", "params": {"outputs": {"required": True}},
        "version": "1.0", "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"},
        "provides": {"symbols": [{"from": "params.outputs", "kind": "field_list"}]}}


def smear(*, stream, outputs, ctx, **_):
    for output in outputs:
        stream = ak.with_field(stream, rng(ctx).normal(size=len(stream)), output)
    return stream
"""
WORKFLOW = """\
version: 1.0
use: {profiles: [hep]}
registry: {transforms: {own.smear: {spec: "own_smear:SPEC", impl: "own_smear:smear"}}}
data:
  defaults: {eventtype: mc, tree_primary: events}
  datasets:
    - {name: data, eventtype: data, nevents: 60, files: [data/data_0.root]}
    - {name: dy, nevents: 80, files: [data/dy_0.root]}
sources:
  events: {kind: root_tree, tree: events}
systematics:
  include_nominal: true
  variations:
    - {name: up, replace: {scale: "1.1"}}
analysis:
  globals: {scale: 1.0}
  stages:
    - id: Scale
      op: hep.define
      params: {variables: [{name: met, expr: "MET_px * scale"}]}
    - {id: First, op: own.smear, params: {outputs: [first, first_more]}}
    - {id: Second, op: own.smear, params: {outputs: [second, second_more]}}
    - id: Cuts
      op: hep.selection.cutflow
      params: {selection: {All: ["first > -100"]}}
      write:
        - {kind: root_tree, path: skim.root, keep: [first, first_more, second, second_more]}
    - id: Noise
      op: hep.hist
      params:
        dataset_axis: true
        axes:
          - {name: x, source: first, type: regular, bins: {low: -3, high: 3, nbins: 60}}
"""
CHUNKS = ("--chunk-size", "20", "-j", "2")
COLUMNS = ("first", "first_more", "second", "second_more")
Numbers = dict[str, dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, small_files: Path, smk: Run) -> Path:
    """The analysis, run in the default way, in 3 + 4 partitions."""
    folder = tmp_path_factory.mktemp("random") / "project"
    folder.mkdir()
    shutil.copytree(small_files, folder / "data")
    (folder / "own_smear.py").write_text(OPS)
    (folder / "workflow.yaml").write_text(WORKFLOW)
    run(smk, folder)
    return folder


def run(smk: Run, folder: Path, *more: str) -> str:
    done = smk("workflow.yaml", *CHUNKS, *more, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stderr


def numbers(build: Path, variation: str = "nominal") -> Numbers:
    """Return what each partition has drawn, by the file that it wrote."""
    parent = build / "artifacts" / variation / "files"
    if not parent.is_dir():
        parent = build / "artifacts" / "files"
    return {
        str(path.relative_to(parent)): uproot.open(path)["events"].arrays(COLUMNS, library="np")
        for path in sorted(parent.rglob("*.root"))
    }


def assert_equal(left: Numbers, right: Numbers) -> None:
    assert left
    assert left.keys() == right.keys()
    for name, columns in left.items():
        for column, values in columns.items():
            np.testing.assert_array_equal(values, right[name][column], f"{name} {column}")


def test_partitions_stages_and_calls_draw_different_numbers(project: Path) -> None:
    drawn = numbers(project / "build")
    assert len(drawn) == 7
    first = [columns[column][0] for columns in drawn.values() for column in COLUMNS]
    assert len(set(first)) == len(first)


def test_variations_draw_the_same_numbers(project: Path) -> None:
    assert_equal(numbers(project / "build", "up"), numbers(project / "build"))


@pytest.mark.parametrize(
    "options",
    [
        ("--granularity", "stage", "--variation", "nominal"),
        pytest.param(("--granularity", "stage"), marks=LONG),
        pytest.param(("--granularity", "stage", "--bundle", "3"), marks=LONG),
        ("--bundle", "1"),
        pytest.param(("--bundle", "5"), marks=LONG),
        pytest.param(("--variation", "nominal"), marks=LONG),
    ],
    ids=" ".join,
)
def test_the_cut_into_jobs_does_not_matter(
    project: Path, options: tuple[str, ...], smk: Run, tmp_path: Path
) -> None:
    run(smk, project, "--outdir", str(tmp_path / "build"), *options)
    assert_equal(numbers(tmp_path / "build"), numbers(project / "build"))


def test_the_place_does_not_matter(
    project: Path, smk: Run, snakemake: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the project, and jobs that start cold, as those of a batch system do."""
    copy = Path(shutil.copytree(project, tmp_path / "copy", ignore=shutil.ignore_patterns("build")))
    monkeypatch.setenv("FASTHEP_SMK_FORK_SERVER", "")
    done = smk("translate", "workflow.yaml", *CHUNKS[:2], "--variation", "nominal", cwd=copy)
    assert done.returncode == 0, done.stderr
    done = snakemake("--profile", "build/smk/profile", cwd=copy)
    assert done.returncode == 0, done.stderr
    assert_equal(numbers(copy / "build"), numbers(project / "build"))


def test_a_partition_that_runs_again_draws_the_same(
    project: Path, smk: Run, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(project, tmp_path / "copy"))
    lost = next((copy / "build").rglob("dy/0_2.root"))
    lost.unlink()
    run(smk, copy)
    assert lost.is_file()
    assert compare_builds(project / "build", copy / "build") == []


def test_the_chunk_size_leaves_the_first_partition_of_a_file_alone(
    project: Path, smk: Run, tmp_path: Path
) -> None:
    run(smk, project, "--outdir", str(tmp_path / "build"), "--chunk-size", "30")
    ours, theirs = numbers(tmp_path / "build"), numbers(project / "build")
    for name in ours:
        same = np.array_equal(ours[name]["first"][:20], theirs[name]["first"])
        assert same is (name.endswith("0_0.root"))


def test_another_seed_gives_other_numbers(project: Path, smk: Run, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(project, tmp_path / "copy"))
    (copy / "workflow.yaml").write_text(WORKFLOW.replace("{scale: 1.0}", "{scale: 1.0, seed: 2}"))
    run(smk, copy)
    ours, theirs = numbers(copy / "build"), numbers(project / "build")
    assert not any(np.isin(ours[name]["first"], theirs[name]["first"]).any() for name in theirs)


@pytest.mark.parametrize(
    "sized", [pytest.param(CHUNKS[:2], marks=LONG), ()], ids=["chunks", "whole"]
)
def test_fasthep_run_draws_the_same(
    project: Path, sized: tuple[str, ...], smk: Run, tmp_path: Path
) -> None:
    reference, ours = tmp_path / "reference", tmp_path / "ours"
    env = {**os.environ, "PYTHONPATH": str(project)}
    warm.fasthep("run", "workflow.yaml", "--outdir", reference, *sized, cwd=project, env=env)
    done = smk("workflow.yaml", "--outdir", str(ours), "-j", "2", *sized, cwd=project)
    assert done.returncode == 0, done.stderr
    assert_equal(numbers(ours), numbers(reference))


def test_a_generator_of_a_module_is_warned_of(project: Path, smk: Run, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(project, tmp_path / "copy", ignore=shutil.ignore_patterns("build")))
    text = OPS.replace("rng\n", "rng\nimport numpy as np\nRNG = np.random.default_rng(42)\n", 1)
    (copy / "own_smear.py").write_text(text)
    for command in (["check"], ["translate"], []):
        done = smk(*command, "workflow.yaml", cwd=copy)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("own_smear.py, line 4, `RNG = np.random.default_rng(42)`") == 1
    done = smk("check", "workflow.yaml", cwd=project)
    assert "random" not in done.stderr
