"""One of several stages that share a job has changed: it alone runs, if the rest still stands."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from fasthep_smk.storage.task_table import TaskTable
from tests.integration.conftest import WORKFLOW, Run
from tests.support import warm
from tests.support.compare import compare_builds
from tests.support.forms import chosen, in_turn, some

pytestmark = pytest.mark.integration

Scratch = Callable[[str], Path]

SCHEMAS = Path(__file__).parents[2] / "fasthep_smk" / "storage"
JOBS = {"data/0_0", "data/1_0", "dy/0_0"}
#: All of one job ran, and of the others one histogram.
ONE_WHOLE = {"data/0_0": ["stage.Vertices"], "data/1_0": ["stage.Vertices"], "dy/0_0": None}
HISTOGRAM = """\
    - id: {name}
      op: hep.hist
      from: Cuts
      params:
        axes:
          - {{name: x, source: {column}, type: regular, bins: {{low: 0, high: 50, nbins: {bins}}}}}
"""
#: The small analysis with two more histograms after its selection.
SEVERAL = (
    WORKFLOW
    + HISTOGRAM.format(name="Vertices", column="NPrimaryVertices", bins=10)
    + HISTOGRAM.format(name="Wide", column="met", bins=5)
)
REBINNED = SEVERAL.replace("nbins: 10", "nbins: 25")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, small_files: Path, smk: Run) -> Path:
    """The analysis, run once."""
    folder = tmp_path_factory.mktemp("several")
    (folder / "data").symlink_to(small_files)
    run(smk, folder, SEVERAL)
    return folder


@pytest.fixture
def project(done: Path, tmp_path: Path) -> Path:
    """A copy of the analysis, run once."""
    return Path(shutil.copytree(done, tmp_path / "project", symlinks=True))


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory, small_files: Path, smk: Run) -> Scratch:
    """Return a folder in which a workflow was run from scratch, once for all tests."""
    made: dict[str, Path] = {}

    def run_once(workflow: str) -> Path:
        if workflow not in made:
            made[workflow] = tmp_path_factory.mktemp("scratch")
            (made[workflow] / "data").symlink_to(small_files)
            run(smk, made[workflow], workflow)
        return made[workflow]

    return run_once


def run(smk: Run, folder: Path, workflow: str, *options: str) -> str:
    (folder / "workflow.yaml").write_text(workflow)
    done = smk("workflow.yaml", "-j", "2", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def records(project: Path) -> dict[str, dict[str, Any]]:
    """Return the records of the partitions' jobs."""
    found = [json.loads(path.read_text()) for path in work(project).rglob("record.json")]
    return {record["key"]: record for record in found if record["rule"].startswith("stage")}


def work(project: Path) -> Path:
    return project / "build" / "smk" / "work"


def ran(project: Path) -> dict[str, list[str] | None]:
    """Return which nodes ran in each job; ``None`` if all did."""
    return {key: record.get("ran") for key, record in records(project).items()}


def cached(project: Path) -> list[Path]:
    return sorted(work(project).rglob("*.spare.arrow"))


def assert_like(scratch: Path, project: Path) -> None:
    """Results, manifests, provenance, summary and the jobs' products are those of a full run."""
    assert compare_builds(scratch / "build", project / "build") == []
    assert summary(project) == summary(scratch)
    ours, theirs = records(project), records(scratch)
    for key, record in theirs.items():
        assert told(ours[key]) == told(record)
    schema = json.loads((SCHEMAS / "record.schema.json").read_text())
    for record in ours.values():
        jsonschema.validate(record, schema)


def summary(project: Path) -> Any:
    text = (project / "build" / "run_summary.yaml").read_text()
    found = yaml.safe_load(text.replace(str(project), "PROJECT"))
    del found["bundle_id"]  # it tells folders apart
    del found["progress"]["run_id"]
    return found


def told(record: dict[str, Any]) -> Any:
    """Return what a record says of the job, without when and where it ran, and how it is stored."""
    here = record["build"]
    kept = {
        **{name: record[name] for name in ("signature", "made_of", "runs")},
        "results": sorted(record["results"]),  # ROOT files hold dates
        "products": [
            {name: one[name] for name in ("node", "port", "kind", "type", "live")}
            for one in record["products"]
            if not one.get("spare")
        ],
    }
    return json.loads(json.dumps(kept).replace(here, "BUILD"))


def test_one_changed_histogram_runs_alone(project: Path, smk: Run, scratch: Scratch) -> None:
    assert ran(project) == dict.fromkeys(JOBS)
    before = {path: path.stat().st_ino for path in cached(project)}
    assert len(before) == 3
    (project / "workflow.yaml").write_text(REBINNED)
    said = smk("why", "workflow.yaml", cwd=project).stdout
    assert "hep.hist Vertices: params.axes['x'].bins.nbins 10 → 25" in said
    run(smk, project, REBINNED)
    assert ran(project) == {key: ["stage.Vertices"] for key in JOBS}
    assert {path: path.stat().st_ino for path in cached(project)} == before  # shared, not copied
    assert_like(scratch(REBINNED), project)
    assert "Nothing to do" in smk("workflow.yaml", "-n", cwd=project).stdout


def test_the_results_are_those_of_fasthep(project: Path, smk: Run) -> None:
    run(smk, project, REBINNED)
    warm.fasthep("run", "workflow.yaml", "--outdir", "reference", cwd=project)
    ignore = ("artifacts/cutflows/*", "artifacts/files/*", "artifacts/provenance/*", "reports/*")
    assert compare_builds(project / "reference", project / "build", ignore=ignore) == []


EDITS = {
    "several edits, one after the other": (
        [REBINNED, REBINNED.replace("nbins: 5}", "nbins: 7}")],
        ["stage.Wide"],
    ),
    "two histograms at once": (
        [REBINNED.replace("nbins: 5}", "nbins: 7}")],
        ["stage.Vertices", "stage.Wide"],
    ),
    "a histogram of a column that is there": (
        [SEVERAL + HISTOGRAM.format(name="More", column="met", bins=9)],
        ["stage.More"],
    ),
    "one is removed, and then one is changed": (
        [SEVERAL.split("    - id: Wide")[0], REBINNED.split("    - id: Wide")[0]],
        ["stage.Vertices"],
    ),
    "back, and another one": (
        [REBINNED, SEVERAL, SEVERAL.replace("nbins: 5}", "nbins: 7}")],
        ["stage.Wide"],
    ),
}


@pytest.mark.parametrize("edit", some(EDITS, 2))
def test_edits_that_cost_a_part(edit: str, project: Path, smk: Run, scratch: Scratch) -> None:
    workflows, nodes = EDITS[edit]
    for workflow in workflows:
        run(smk, project, workflow)
    assert ran(project) == dict.fromkeys(JOBS, nodes)
    assert_like(scratch(workflows[-1]), project)


WHOLE = {
    "the selection": SEVERAL.replace("met > 5", "met > 6"),
    "a definition before it": SEVERAL.replace("MET_py ** 2", "MET_py * MET_py"),
    "a global": SEVERAL.replace("analysis:\n", "analysis:\n  globals: {new: 1}\n"),
    "what a skim keeps": REBINNED.replace("keep: [met]", "keep: [met, EventWeight]"),
}


def test_a_histogram_of_a_column_that_was_not_kept(
    project: Path, smk: Run, scratch: Scratch
) -> None:
    """All before it runs, and no other histogram, if that saves half of the nodes."""
    workflow = SEVERAL + HISTOGRAM.format(name="More", column="MET_px", bins=9)
    run(smk, project, workflow)
    some = ["read.events", "stage.Vars", "stage.Cuts", "stage.More"]
    assert ran(project) == {"data/0_0": some, "data/1_0": some, "dy/0_0": None}
    assert_like(scratch(workflow), project)


@pytest.mark.parametrize("edit", some(WHOLE, 2))
def test_edits_that_cost_it_all(edit: str, project: Path, smk: Run, scratch: Scratch) -> None:
    workflow = WHOLE[edit]
    run(smk, project, workflow)
    assert ran(project) == dict.fromkeys(JOBS)
    assert_like(scratch(workflow), project)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


DAMAGE: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a cached stream with a bit flipped": ("*.spare.arrow", flip),
    "a cached stream that is truncated": ("*.spare.arrow", cut),
    "a cached stream that is deleted": ("*.spare.arrow", Path.unlink),
    "an archive with a bit flipped": ("products.zip", flip),
    "an archive that is deleted": ("products.zip", Path.unlink),
    "a record with a bit flipped": ("record.json", flip),
}


@pytest.mark.parametrize(
    ("damage", "when"),
    chosen(
        in_turn(DAMAGE, ["before the translation", "before the job"]),
        lambda damage, _: damage.endswith(("truncated", "deleted")),
    ),
)
def test_what_is_damaged_is_made_again(
    damage: str, when: str, project: Path, smk: Run, scratch: Scratch
) -> None:
    name, harm = DAMAGE[damage]
    if when == "before the translation":
        harm(next((work(project) / "stages_Vars_to_Wide/dy").rglob(name)))
        run(smk, project, REBINNED)
    else:
        translate(project, REBINNED, smk)
        old = [path.parent for path in (project / "build/smk/old").rglob("record.json")]
        mine = next(path for path in old if '"key": "dy/0_0"' in (path / "record.json").read_text())
        harm(next(mine.glob(name)))
        by_snakemake(project)
    expected = ONE_WHOLE
    if (damage, when) == ("an archive that is deleted", "before the translation"):
        # What the histograms are filled from is still there.
        expected = {**ONE_WHOLE, "dy/0_0": ["stage.Met", "stage.Vertices", "stage.Wide"]}
    assert ran(project) == expected
    assert_like(scratch(REBINNED), project)


def translate(project: Path, workflow: str, smk: Run) -> None:
    (project / "workflow.yaml").write_text(workflow)
    done = smk("translate", "workflow.yaml", cwd=project)
    assert done.returncode == 0, done.stderr
    for path in (project / "build/smk/tasks").glob("*.json"):
        assert TaskTable.read(project / "build", path.stem).jobs


def by_snakemake(project: Path) -> None:
    """Run the translation as it is."""
    command = [sys.executable, "-m", "snakemake", "--profile", "build/smk/profile", "--cores", "2"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_was_put_away_is_gone_when_the_jobs_start(
    project: Path, smk: Run, scratch: Scratch
) -> None:
    translate(project, REBINNED, smk)
    shutil.rmtree(project / "build/smk/old")
    by_snakemake(project)
    assert ran(project) == dict.fromkeys(JOBS)
    assert_like(scratch(REBINNED), project)


@pytest.mark.parametrize("when", some(["before the translation", "before the job"], 1))
def test_a_skim_that_was_changed_is_made_again(
    when: str, project: Path, smk: Run, scratch: Scratch
) -> None:
    skim = project / "build/artifacts/files/skim/dy/0_0.root"
    if when == "before the translation":
        flip(skim)
        run(smk, project, REBINNED)
    else:
        translate(project, REBINNED, smk)
        skim.unlink()
        by_snakemake(project)
    assert ran(project) == ONE_WHOLE
    assert_like(scratch(REBINNED), project)


def test_clean_frees_spare_streams_and_costs_no_result(project: Path, smk: Run) -> None:
    assert smk("clean", "build", cwd=project).returncode == 0
    assert cached(project) == []
    assert "Nothing to do" in smk("workflow.yaml", "-n", cwd=project).stdout
    run(smk, project, REBINNED)
    assert ran(project) == dict.fromkeys(JOBS)
    run(smk, project, SEVERAL.replace("nbins: 5}", "nbins: 7}"), "--keep", "none")
    assert ran(project) == {key: ["stage.Wide"] for key in JOBS}
    assert cached(project) == []


def test_a_build_folder_that_was_moved(project: Path, smk: Run) -> None:
    (project / "build").rename(project / "elsewhere")
    run(smk, project, REBINNED, "--outdir", "elsewhere")
    (project / "elsewhere").rename(project / "build")
    assert ran(project) == {key: ["stage.Vertices"] for key in JOBS}
    here = str(project / "elsewhere")
    for record in records(project).values():
        assert record["build"] == here
        assert str(project / "build") not in json.dumps(record)


def test_the_other_granularity(project: Path, smk: Run, scratch: Scratch) -> None:
    run(smk, project, REBINNED, "--granularity", "stage")
    assert compare_builds(scratch(REBINNED) / "build", project / "build") == []
    run(smk, project, REBINNED.replace("nbins: 5}", "nbins: 7}"))
    assert set(map(str, ran(project).values())) == {"['stage.Wide']"}
