"""Damaged files between jobs, and of our own: named where they are read, and made again."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fasthep_smk.util import files
from tests.integration.conftest import WORKFLOW, Run
from tests.support.compare import compare_builds
from tests.support.forms import some

pytestmark = pytest.mark.integration

#: With files of each kind: event streams, products of partitions, of merges and of side products.
EVERY_KIND = WORKFLOW.replace(
    "  stages:\n",
    """\
  stages:
    - {id: Data, op: curator.root_tree_schema, needs: [], params: {dataset: data, tree: events}}
    - {id: Dy, op: curator.root_tree_schema, needs: [], params: {dataset: dy, tree: events}}
    - id: Compare
      op: curator.compare_schemas
      from: [{node: Data, port: schema, as: reference}, {node: Dy, port: schema, as: target}]
      params: {reference_label: data, target_label: dy}
    - id: Back
      op: curator.compare_schemas
      from: [{node: Dy, port: schema, as: reference}, {node: Data, port: schema, as: target}]
      params: {reference_label: dy, target_label: data}
    - id: Validation
      op: hep.render.schema_validation
      from:
        - {node: Compare, port: comparison, as: forward}
        - {node: Back, port: comparison, as: backward}
      params: {outputs: [{path: reports/schemas.md, format: markdown}]}
""",
).replace(
    "keep: [met]}\n",
    """\
keep: [met]}
        - {kind: root_tree, path: "of/{dataset}.root", keep: [met], when: dataset}
""",
)


#: Makes the plain call for a build folder again, with further arguments; returns what it said.
RunAgain = Callable[..., str]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def fill_with_garbage(path: Path) -> None:
    path.write_bytes(b"\x00\xff garbage \x80")


def write_other_json(path: Path) -> None:
    path.write_text('{"files": [1], "branches": 2, "format": 1, "jobs": null, "pid": "x"}\n')


DAMAGE: dict[str, Callable[[Path], None]] = {
    "one bit flipped": flip,
    "truncated": truncate,
    "empty": empty,
    "deleted": Path.unlink,
}
MORE_DAMAGE = {**DAMAGE, "garbage": fill_with_garbage, "other JSON": write_other_json}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, small_files: Path, smk: Run) -> Path:
    """The build folder of a finished run, with a rule for each stage."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "data").symlink_to(small_files)
    (folder / "workflow.yaml").write_text(EVERY_KIND)
    done = smk("workflow.yaml", "-j", "2", "--granularity", "stage", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "build"


@pytest.fixture
def build(finished: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A copy of that build folder; afterwards its results are those of the original."""
    number = request.session.items.index(request.node)
    folder = finished.with_name(f"build{number}")
    shutil.copytree(finished, folder)
    yield folder
    assert compare_builds(finished, folder) == []


@pytest.fixture
def run_again(smk: Run) -> RunAgain:
    """Make the plain call again, which must succeed; return what it said."""

    def run(build: Path, *more: str) -> str:
        arguments = ("-j", "2", "--granularity", "stage", "--outdir", build.name, *more)
        done = smk("workflow.yaml", *arguments, cwd=build.parent)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    return run


def records(build: Path) -> dict[str, tuple[int, int]]:
    """Which jobs are finished, and what tells this time from another."""
    work = build / "smk" / "work"
    found = {str(path.parent.relative_to(work)): path.stat() for path in work.rglob("record.json")}
    return {name: (status.st_ino, status.st_mtime_ns) for name, status in found.items()}


def again(before: dict[str, tuple[int, int]], build: Path) -> set[str]:
    """Which jobs have run since ``before``."""
    return {name for name, what in records(build).items() if before.get(name) != what}


@pytest.mark.parametrize("damage", some(DAMAGE, 2))
def test_damaged_products_are_named_and_made_again(
    build: Path, run_again: RunAgain, damage: str
) -> None:
    work = build / "smk" / "work"
    before = records(build)
    damaged = [
        "stage_Cuts/data/0_0/Cuts.arrow",  # an event stream
        "stage_Met/data/0_0/products.zip",  # a histogram of a partition
        "stage_Met/data/1_0/products.zip",
        "merge/dy/products.zip",
    ]
    readers = {"merge/data", "finish"}
    for name in damaged:
        DAMAGE[damage](work / name)
    for name in readers:
        (work / name / "record.json").unlink()
    said = run_again(build)
    if damage in ("truncated", "empty"):  # which is seen before anything runs
        assert f"stage_Cuts/data/0_0/Cuts.arrow is {damage} (" in said
    elif damage != "deleted":
        assert f"{work}/stage_" in said  # of several that one job reads, the first
        assert f"{work}/merge/dy/products.zip: this intermediate file" in said
        assert "the run repeats the jobs that made these files" in said
    assert again(before, build) == readers | {str(Path(name).parent) for name in damaged}


@pytest.mark.parametrize("damage", some(MORE_DAMAGE, 2))
def test_damaged_records_are_named_and_made_again(
    build: Path, run_again: RunAgain, damage: str
) -> None:
    work = build / "smk" / "work"
    before = records(build)
    damaged = {"stage_Met/data/0_0", "merge/dy", "side_products", "finish"}
    for name in damaged:
        MORE_DAMAGE[damage](work / name / "record.json")
    (work / "merge/data/record.json").unlink()
    said = run_again(build)
    if damage != "deleted":
        assert f"{work}/merge/dy/record.json is damaged" in said
    assert again(before, build) == damaged | {"merge/data"}
    for name in damaged:
        files.unseal((work / name / "record.json").read_bytes())


#: A result of each kind, and the job that makes it.
RESULTS = {
    "artifacts/histograms/Met.pkl": "finish",
    "artifacts/histograms/manifest.json": "finish",
    "artifacts/cutflows/Cuts.json": "finish",
    "artifacts/plots/Met.png": "finish",
    "artifacts/files/skim/data/0_0.root": "stage_Cuts/data/0_0",
    "artifacts/files/of/dy.root": "merge/dy",
    "artifacts/files/skim/manifest.json": "finish",
    "artifacts/provenance/manifest.json": "finish",
    "artifacts/provenance/execution.json": "finish",
    "artifacts/provenance/records/*.json": "finish",
    "reports/schemas.md": "finish",
    "run_summary.yaml": "finish",
}


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def make_folder(path: Path) -> None:
    path.unlink()
    (path / "notes").mkdir(parents=True)


RESULT_DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "truncated": (truncate, "is truncated ("),
    "empty": (empty, "is empty (0 of "),
    "longer": (lengthen, "is too long ("),
    "a folder": (make_folder, "is a folder"),
    "deleted": (Path.unlink, "is gone"),
    "one bit flipped": (flip, "has changed (its checksum differs)"),
}


def result_in(build: Path, pattern: str) -> Path:
    return sorted(build.glob(pattern))[0]


def damaged_by_status(build: Path, smk: Run) -> dict[str, str]:
    """What ``status --verify`` lists, by its path."""
    done = smk("status", build.name, "--verify", "--json", cwd=build.parent)
    found: dict[str, str] = json.loads(done.stdout)["damaged"]
    assert done.returncode == int(bool(found)), done.stderr
    return found


#: Of each job, a result in which only who reads it sees the damage.
FLIPPED = (
    "artifacts/files/skim/data/0_0.root",
    "artifacts/files/of/dy.root",
    "artifacts/provenance/records/*.json",
)


@pytest.mark.parametrize(
    ("pattern", "damage"),
    some([(one, "truncated") for one in RESULTS], 2)
    + some([(one, "one bit flipped") for one in FLIPPED], 2),
)
def test_a_damaged_result_is_named_and_made_again_alone(
    build: Path, run_again: RunAgain, smk: Run, pattern: str, damage: str
) -> None:
    path, before = result_in(build, pattern), records(build)
    change, how = RESULT_DAMAGE[damage]
    change(path)
    name = str(path.relative_to(build))
    assert list(damaged_by_status(build, smk)) == [name]
    verify = ["--verify"] if damage == "one bit flipped" else []
    arguments = ("workflow.yaml", "--granularity", "stage", "--outdir", build.name, *verify)
    said = smk("why", *arguments, cwd=build.parent).stdout
    assert f"its result {name} {how}" in " ".join(said.split())
    run_again(build, *verify)
    assert again(before, build) == {RESULTS[pattern]}
    assert damaged_by_status(build, smk) == {}


@pytest.mark.parametrize("damage", some(RESULT_DAMAGE, 3))
def test_however_a_result_is_damaged_it_is_seen(
    build: Path, run_again: RunAgain, smk: Run, damage: str
) -> None:
    path, before = build / "artifacts/plots/Met.png", records(build)
    change, how = RESULT_DAMAGE[damage]
    change(path)
    said = run_again(build, *(["--verify"] if damage == "one bit flipped" else []))
    assert again(before, build) == {"finish"}
    kept = sorted((build / "smk/old").glob("*/edited/artifacts/plots/Met.png"))
    assert len(kept) == int(damage != "deleted")  # somebody may have edited it
    if kept:
        assert f"warning: result artifacts/plots/Met.png {how}" in said
        assert f"the damaged files are kept in {kept[0].parents[3].relative_to(build)}" in said
    assert damaged_by_status(build, smk) == {}


def test_the_content_is_read_only_by_who_verifies(build: Path, run_again: RunAgain) -> None:
    before = records(build)
    path = build / "artifacts/plots/Met.png"
    flip(path)
    assert "jobs to run" not in run_again(build)
    flip(path)
    assert "to run" not in run_again(build, "--verify")
    assert not again(before, build)


def test_damaged_products_that_nobody_needs_are_named_and_removed(
    build: Path, run_again: RunAgain, smk: Run
) -> None:
    before = records(build)
    path = build / "smk/work/stage_Cuts/data/0_0/Cuts.arrow"
    flip(path)
    assert list(damaged_by_status(build, smk)) == [str(path.relative_to(build))]
    said = run_again(build, "--verify")
    assert "Cuts.arrow has changed (its checksum differs): made again where it" in said
    assert not again(before, build)
    assert not path.exists()
    assert damaged_by_status(build, smk) == {}  # products may be gone


def test_a_damaged_product_that_a_job_needs_is_the_reason_for_its_job(
    build: Path, run_again: RunAgain, smk: Run
) -> None:
    before = records(build)
    truncate(build / "smk/work/stage_Met/dy/0_0/products.zip")
    empty(build / "artifacts/files/of/dy.root")
    arguments = ("workflow.yaml", "--granularity", "stage", "--outdir", build.name)
    said = smk("why", *arguments, "--json", cwd=build.parent).stdout
    reasons = {one["rule"]: one["reason"] for one in json.loads(said)["to_run"]}
    assert reasons["merge"].startswith("its result artifacts/files/of/dy.root is empty (0 of ")
    assert reasons["stage_Met"].startswith("its product products.zip is truncated (")
    run_again(build)
    assert again(before, build) == {"stage_Met/dy/0_0", "merge/dy"}


def test_a_run_in_which_every_file_is_damaged_mends_itself(
    build: Path, run_again: RunAgain
) -> None:
    for path in (build / "smk" / "work").rglob("*"):
        if path.suffix in (".arrow", ".zip") and path.stat().st_size:
            flip(path)
    (build / "smk/work/finish/record.json").unlink()
    assert "the run repeats the jobs that made these files" in run_again(build)


@pytest.mark.parametrize("damage", some(MORE_DAMAGE, 1))
def test_damaged_files_of_ours_are_written_again(
    build: Path, run_again: RunAgain, damage: str
) -> None:
    smk = build / "smk"
    before = records(build)
    note = smk / "failures" / "stage_Met" / "dy_0_0.json"
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps({"rule": "stage_Met", "key": "dy/0_0", "kind": "killed"}) * 3)
    lock = json.loads((smk / "lock").read_text())
    (smk / "lock").write_text(json.dumps({**lock, "state": "running"}))
    ours = [*smk.glob("*"), *(smk / "tasks").glob("*"), *(smk / "plans").glob("*"), note]
    ours += [smk / "cache" / "inputs.json", smk / "profile" / "config.yaml"]
    for path in ours:
        if path.is_file():
            MORE_DAMAGE[damage](path)
    run_again(build)
    assert not again(before, build)


@pytest.mark.parametrize("damage", some(["removed", *MORE_DAMAGE], 1))
def test_snakemakes_own_folder_may_be_damaged(
    build: Path, run_again: RunAgain, damage: str
) -> None:
    folder = build / ".snakemake"
    # What a run has left that was killed when a job had ended, and Snakemake had not heard of it.
    name = base64.urlsafe_b64encode(b"smk/work/finish/record.json").decode()
    for path in (folder / "incomplete" / name, folder / "locks" / "0.output.lock"):
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"external_jobid": null}\n')
    lock = json.loads((build / "smk/lock").read_text())
    (build / "smk/lock").write_text(json.dumps({**lock, "state": "running"}))
    if damage == "removed":
        shutil.rmtree(folder)
    else:
        for path in [item for item in folder.rglob("*") if item.is_file()]:
            MORE_DAMAGE[damage](path)
    before = records(build)
    run_again(build)
    assert not again(before, build)
    (build / "smk/work/finish/record.json").unlink()
    run_again(build)
    assert again(before, build) == {"finish"}
