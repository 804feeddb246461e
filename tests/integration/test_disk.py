"""What a build folder says of itself, and what can go without losing anything."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.conftest import WORKFLOW, Run
from tests.support.forms import some

pytestmark = pytest.mark.integration

OWN = """\
import os, time
SPEC = {"name": "own.wait", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}


def run(*, stream, ctx=None, **_):
    while os.path.exists("wait"):
        time.sleep(0.05)
    part = dict(ctx["partition"])
    if os.path.exists("fail") and f"{part['dataset']}/{part['part']}" in open("fail").read():
        raise ValueError("no such luck")
    return stream
"""


@pytest.fixture
def own(analysis: Path) -> Path:
    """The small analysis with a stage that waits for, or fails by, a file."""
    (analysis / "own_ops.py").write_text(OWN)
    workflow = yaml.safe_load((analysis / "workflow.yaml").read_text())
    workflow["registry"] = {
        "transforms": {"own.wait": {"spec": "own_ops:SPEC", "impl": "own_ops:run"}}
    }
    workflow["smk"] = {"ignore_reads": ["fail"]}  # a job that works now is no other result
    workflow["analysis"]["stages"].insert(0, {"id": "Own", "op": "own.wait"})
    (analysis / "workflow.yaml").write_text(yaml.safe_dump(workflow))
    return analysis


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, small_files: Path, smk: Run) -> Path:
    folder = tmp_path_factory.mktemp("by_stage")
    (folder / "data").symlink_to(small_files)
    (folder / "workflow.yaml").write_text(WORKFLOW)
    run(smk, folder)
    return folder


@pytest.fixture
def by_stage(finished: Path, tmp_path: Path) -> Path:
    """The small analysis, run with one rule per stage: event streams lie between them."""
    folder = tmp_path / "by_stage"
    subprocess.run(["cp", "-a", finished, folder], check=True)
    return folder


@pytest.fixture
def two_histograms(analysis: Path) -> Path:
    """The small analysis with a second histogram of the same events."""
    with (analysis / "workflow.yaml").open("a") as workflow:
        workflow.write(
            "    - id: Other\n      op: hep.hist\n      params:\n        axes:\n"
            "          - {name: met, source: met, type: regular, bins: {low: 0, high: 9, nbins: 3}}"
            "\n"
        )
    return analysis


def run(smk: Run, folder: Path, *more: str) -> str:
    done = smk("workflow.yaml", "-j", "2", "--granularity", "stage", *more, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def status(smk: Run, folder: Path) -> Any:
    done = smk("status", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def counts(found: Any) -> dict[str, int]:
    names = ("done", "running", "failed", "to do", "total")
    return {name: sum(rule[name] for rule in found["rules"]) for name in names}


def wait_for(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def edit(folder: Path, old: str = "nbins: 20", new: str = "nbins: 25") -> None:
    """Change a late stage: another number of bins."""
    workflow = folder / "workflow.yaml"
    assert workflow.read_text().count(old) == 1
    workflow.write_text(workflow.read_text().replace(old, new))


def histogram(folder: Path, build: str = "build", name: str = "Met") -> Any:
    return pickle.loads((folder / build / f"artifacts/histograms/{name}.pkl").read_bytes())


def files(folder: Path, pattern: str) -> list[Path]:
    return sorted((folder / "build" / "smk").rglob(pattern))


# --- status ---------------------------------------------------------------------------------------


def test_before_a_run_all_jobs_are_to_do(analysis: Path, smk: Run) -> None:
    for command in ("status", "clean"):
        done = smk(command, cwd=analysis)
        assert done.returncode == 2
        assert "BUILD: there is no such folder" in done.stderr
    assert smk("translate", "workflow.yaml", cwd=analysis).returncode == 0
    assert counts(status(smk, analysis)) == {
        "done": 0, "running": 0, "failed": 0, "to do": 4, "total": 4,
    }  # fmt: skip
    assert not (analysis / "build/smk/work").exists()


def test_in_the_middle_of_a_run(own: Path, smk: Run) -> None:
    (own / "wait").touch()
    command = [sys.executable, "-m", "fasthep_smk", "workflow.yaml", "-j", "2"]
    process = subprocess.Popen(
        command, cwd=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        wait_for(lambda: (own / "build/smk/tasks/finish.json").exists())
        wait_for(lambda: counts(status(smk, own))["running"] == 2)
        found = status(smk, own)
        assert counts(found) == {"done": 0, "running": 2, "failed": 0, "to do": 2, "total": 4}
        assert found["run"]["pid"] == process.pid
        assert f"process {process.pid} on " in smk("status", cwd=own).stdout
        for more in ([], ["-n"], ["--all"]):
            refused = smk("clean", *more, cwd=own)
            assert refused.returncode == 1
            assert f"another run is in progress in {own / 'build'}" in refused.stderr
    finally:
        (own / "wait").unlink()
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert counts(status(smk, own))["done"] == 4


def test_after_a_failure(own: Path, smk: Run) -> None:
    (own / "fail").write_text("dy/0_0")
    done = smk("workflow.yaml", "-j", "2", "--granularity", "stage", "--", "-k", cwd=own)
    assert done.returncode == 1
    found = status(smk, own)
    assert found["run"] is None
    assert counts(found)["failed"] == 1
    text = smk("status", cwd=own).stdout
    assert "no run in progress" in text
    assert "1 job failed:" in text
    assert "dy/0_0: stage 'Own' (own.wait) failed: ValueError: no such luck" in text
    # What the jobs that are left will read stays.
    assert smk("clean", cwd=own).returncode == 0
    (own / "fail").unlink()
    left = counts(found)["failed"] + counts(found)["to do"]
    assert f"{left} jobs done" in run(smk, own)


def test_after_a_success_it_says_what_it_takes(by_stage: Path, smk: Run) -> None:
    found = status(smk, by_stage)
    assert counts(found)["done"] == counts(found)["total"]
    on_disk = sum(
        path.lstat().st_size for path in (by_stage / "build").rglob("*") if not path.is_dir()
    )
    assert found["total"]["bytes"] == on_disk
    streams = files(by_stage, "*.arrow")
    assert streams
    assert found["disk"]["event streams"] == {
        "bytes": sum(path.stat().st_size for path in streams),
        "files": len(streams),
    }
    assert found["clean"]["event streams"] == found["disk"]["event streams"]


# --- clean ----------------------------------------------------------------------------------------


def _written(folder: Path) -> dict[Path, tuple[int, int]]:
    """When each file was written, and its size; that it was read since does not matter."""
    found = ((path, path.stat()) for path in folder.rglob("*"))
    return {path: (status.st_mtime_ns, status.st_size) for path, status in found}


def test_clean_frees_what_it_says_and_nothing_runs_again(by_stage: Path, smk: Run) -> None:
    results = _written(by_stage / "build/artifacts")
    said = smk("clean", "-n", cwd=by_stage).stdout
    assert files(by_stage, "*.arrow")
    done = smk("clean", cwd=by_stage)
    assert done.returncode == 0, done.stderr
    assert done.stdout == said.replace("would be freed", "freed         ")
    assert not files(by_stage, "*.arrow")
    assert smk("clean", cwd=by_stage).stdout == "nothing to free\n"
    assert results == _written(by_stage / "build/artifacts")
    assert "everything was up to date" in run(smk, by_stage)
    assert not files(by_stage, "*.arrow")


@pytest.mark.parametrize("way", some(["--keep none", "clean"], 1))
def test_what_an_edit_needs_is_made_again(two_histograms: Path, smk: Run, way: str) -> None:
    folder = two_histograms
    if way == "clean":
        run(smk, folder)
        assert smk("clean", cwd=folder).returncode == 0
    else:
        assert "; freed " in run(smk, folder, "--keep", "none")
        assert {path.parents[1].name for path in files(folder, "products.zip")} == {"merge"}
        assert "everything was up to date" in run(smk, folder, "--keep", "none")
    assert not files(folder, "*.arrow")
    other = {path: path.stat().st_mtime_ns for path in files(folder, "stage_Other/*/*/record.json")}
    edit(folder)
    run(smk, folder)
    run(smk, folder, "--outdir", "afresh")
    assert histogram(folder).axes["met"].size == 25
    assert histogram(folder) == histogram(folder, "afresh")
    assert histogram(folder, name="Other") == histogram(folder, "afresh", name="Other")
    assert "everything was up to date" in run(smk, folder)
    if way == "clean":
        # What reads the same event stream and was not edited did not run again.
        assert len(other) == 3
        assert all(path.stat().st_mtime_ns == when for path, when in other.items())


def test_clean_forgets_what_was_before_an_edit(by_stage: Path, smk: Run) -> None:
    before = histogram(by_stage)
    edit(by_stage)
    run(smk, by_stage)
    assert status(smk, by_stage)["disk"]["superseded results"]["files"] > 0
    assert "superseded results" in smk("clean", cwd=by_stage).stdout
    assert not files(by_stage, "old/*")
    edit(by_stage, "nbins: 25", "nbins: 20")
    assert "up to date" not in run(smk, by_stage)
    assert histogram(by_stage) == before


def test_clean_all_leaves_results_only(by_stage: Path, smk: Run) -> None:
    before = histogram(by_stage)
    jobs = counts(status(smk, by_stage))["total"]
    done = smk("clean", "--all", cwd=by_stage)
    assert done.returncode == 0, done.stderr
    assert "the next run starts from the beginning" in done.stdout
    assert not (by_stage / "build/smk/work").exists()
    assert not (by_stage / "build/.snakemake").exists()
    show = [str(Path(sys.executable).parent / "fasthep"), "provenance", "show"]
    plot = "build/artifacts/plots/Met.png"
    told = subprocess.run([*show, plot], cwd=by_stage, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert counts(status(smk, by_stage))["to do"] == jobs
    assert f"{jobs} jobs done" in run(smk, by_stage)
    assert histogram(by_stage) == before


# --- after a run ----------------------------------------------------------------------------------


def superseded(folder: Path, name: str, size: int, when: int) -> Path:
    """Make up a superseded job of this size (its file takes no space)."""
    place = folder / "build/smk/old" / name
    place.mkdir(parents=True)
    (place / "record.json").write_text("{}")
    with (place / "products.zip").open("wb") as archive:
        archive.truncate(size)
    os.utime(place, (when, when))
    return place


def test_keep_bounds_superseded_results(by_stage: Path, smk: Run) -> None:
    older = superseded(by_stage, "0123", 80 * 1000**2, 1)
    newer = superseded(by_stage, "4567", 80 * 1000**2, 2)
    before = files(by_stage, "*.arrow")
    said = run(smk, by_stage, "--keep", "all")
    assert "superseded results 160 MB); fasthep-smk clean frees 160 MB" in said
    said = run(smk, by_stage)
    assert "superseded results 80 MB); freed 80 MB; fasthep-smk clean frees 80 MB" in said
    assert not older.exists()
    assert newer.exists()
    assert files(by_stage, "*.arrow") == before
    run(smk, by_stage, "--keep", "none")
    assert not newer.exists()


def test_nothing_goes_unless_all_jobs_ran(own: Path, smk: Run) -> None:
    place = superseded(own, "0123", 200 * 1000**2, 1)
    (own / "fail").write_text("dy/0_0")
    assert smk("workflow.yaml", "--keep", "none", cwd=own).returncode == 1
    assert smk("workflow.yaml", "--keep", "none", "-n", cwd=own).returncode == 0
    (own / "fail").unlink()
    assert "would run" in smk("workflow.yaml", "--keep", "none", "-n", cwd=own).stdout
    assert smk("workflow.yaml", "--keep", "none", "--", "--dry-run", cwd=own).returncode == 0
    assert place.exists()


@pytest.mark.long
def test_nothing_goes_as_long_as_partitions_are_missing(own: Path, smk: Run) -> None:
    (own / "fail").write_text("data/1_0")
    done = smk("workflow.yaml", "--keep", "none", "--accept-missing", "1", cwd=own)
    assert done.returncode == 0, done.stderr
    assert files(own, "products.zip")
    assert status(smk, own)["incomplete"]
    assert "THE RESULTS ARE INCOMPLETE" in smk("status", cwd=own).stdout
    (own / "fail").unlink()
    done = smk("workflow.yaml", "--keep", "none", cwd=own)
    assert done.returncode == 0, done.stderr
    assert not files(own, "products.zip")
    assert not status(smk, own)["incomplete"]


def test_a_wrong_word_for_keep(analysis: Path, smk: Run) -> None:
    done = smk("workflow.yaml", "--keep", "some", cwd=analysis)
    assert done.returncode == 2
    assert "invalid choice: 'some'" in done.stderr
    done = smk("workflow.yaml", "--", "--keep", "none", cwd=analysis)
    assert done.returncode == 2
    assert "--keep belongs before --" in done.stderr
