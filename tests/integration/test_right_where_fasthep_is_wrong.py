"""Where ``fasthep run`` gives a wrong result or none: ours against values computed independently.

The list is the first table of docs/differences.md.
"""

from __future__ import annotations

import csv
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

from tests.integration.conftest import Run
from tests.support import cases, independent
from tests.support.compare import compare_builds
from tests.support.forms import LONG, in_turn, some

pytestmark = pytest.mark.integration

GRANULARITIES = ["auto", "stage"]


def run_case(smk: Run, name: str, folder: Path, *options: str) -> Path:
    """Run a case of the suite; return its build folder."""
    workflow = cases.case(name).prepare(folder)
    done = smk(workflow.name, "-j", "2", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "build"


def passing_met(path: Path) -> Any:
    """Missing momentum of the events that pass the small analysis' cut."""
    with uproot.open(path) as opened:
        events = opened["events"].arrays(["MET_px", "MET_py"])
    met = np.sqrt(events.MET_px**2 + events.MET_py**2)
    return np.asarray(met[met > 5])


def histogram(build: Path, name: str) -> Any:
    return pickle.loads((build / "artifacts" / name).read_bytes())


@pytest.mark.parametrize("chunk", [("--chunk-size", "120"), pytest.param((), marks=LONG)])
def test_each_dataset_has_its_own_cutflow_rows(
    smk: Run, tmp_path: Path, chunk: tuple[str, ...]
) -> None:
    build = run_case(smk, "cutflow_single", tmp_path, *chunk)
    document = json.loads((build / "artifacts/cutflows/Regions.json").read_text())
    found = independent.cutflow_artifact_rows(document)
    assert not independent.rows_close(found, independent.cutflow_single_rows(tmp_path))
    (table,) = (build / "artifacts/tables").glob("*.csv")
    datasets = {row["dataset"] for row in csv.DictReader(table.open())}
    assert datasets == {"data", "dy", "qcd"}


@pytest.mark.parametrize(
    ("chunk", "granularity"), some(in_turn([("--chunk-size", "80"), ()], GRANULARITIES), 1)
)
def test_events_of_joined_sources_count_once(
    smk: Run, tmp_path: Path, chunk: tuple[str, ...], granularity: str
) -> None:
    build = run_case(smk, "joins", tmp_path, "--granularity", granularity, *chunk)
    counts = histogram(build, "histograms/Counts.pkl")
    assert not independent.histograms_close(counts, independent.joins_counts(tmp_path))
    matched = histogram(build, "histograms/Matched.pkl")
    assert not independent.histograms_close(matched, independent.joins_matched(tmp_path))


@pytest.mark.parametrize("chunk", [("--chunk-size", "70"), pytest.param((), marks=LONG)])
def test_a_wrong_nevents_of_several_files_neither_adds_nor_drops_events(
    smk: Run, tmp_path: Path, chunk: tuple[str, ...]
) -> None:
    build = run_case(smk, "plan_systematics", tmp_path, "--variation", "nominal", *chunk)
    found = histogram(build, "nominal/histograms/MetHist.pkl")
    expected = independent.plan_systematics_nominal(tmp_path)
    assert not independent.histograms_close(found, expected)


def test_files_are_cut_by_their_own_entries_without_nevents(analysis: Path, smk: Run) -> None:
    done = smk("workflow.yaml", "-j", "2", "--chunk-size", "25", cwd=analysis)
    assert done.returncode == 0, done.stderr
    table = json.loads((analysis / "build/smk/tasks/stages_Vars_to_Met.json").read_text())
    ranges = [
        (job["partition"]["file"], job["partition"]["start"], job["partition"]["stop"])
        for job in table["jobs"].values()
    ]
    assert ranges == [
        ("data/data_0.root", 0, 25), ("data/data_0.root", 25, 50), ("data/data_0.root", 50, 60),
        ("data/data_1.root", 0, 25), ("data/data_1.root", 25, 40),
        ("data/dy_0.root", 0, 25), ("data/dy_0.root", 25, 50), ("data/dy_0.root", 50, 75),
        ("data/dy_0.root", 75, 80),
    ]  # fmt: skip
    found = histogram(analysis / "build", "histograms/Met.pkl")
    for dataset, files in (("data", ("data_0", "data_1")), ("dy", ("dy_0",))):
        passed = np.concatenate([passing_met(analysis / f"data/{name}.root") for name in files])
        expected = np.histogram(passed, bins=20, range=(0, 100))[0]
        assert np.array_equal(found[dataset, :].values(), expected)


@pytest.mark.parametrize("granularity", some(GRANULARITIES, 1))
def test_global_side_products_survive_several_partitions(
    smk: Run, tmp_path: Path, granularity: str
) -> None:
    reference = run_case(smk, "schemas", tmp_path, "--outdir", "build")
    workflow = tmp_path / "workflow.yaml"
    options = ("--granularity", granularity, "--chunk-size", "25", "--outdir", "chunks")
    done = smk(workflow.name, "-j", "2", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    ours = tmp_path / "chunks"
    # One partition is what FAST-HEP gets right; the number of them must not matter.
    ignore = ("artifacts/histograms/*", "artifacts/provenance/*", "reports/schemas.*")
    assert not compare_builds(reference, ours, ignore=ignore)
    assert (ours / "reports/schemas.md").is_file()


def test_a_writer_at_the_end_of_the_run_gets_the_events_of_all_datasets(
    analysis: Path, smk: Run
) -> None:
    workflow = analysis / "workflow.yaml"
    text = workflow.read_text().replace(
        "{kind: root_tree, path: skim.root, keep: [met]}",
        "{kind: root_tree, path: all.root, keep: [met], format: ttree, when: final}",
    )
    workflow.write_text(text)
    done = smk("workflow.yaml", "-j", "2", cwd=analysis)
    assert done.returncode == 0, done.stderr
    written = uproot.open(analysis / "build/artifacts/files/all.root")["events"]["met"].array()
    names = ("data_0", "data_1", "dy_0")
    expected = [passing_met(analysis / f"data/{name}.root") for name in names]
    assert ak.array_equal(written, ak.concatenate(expected))


def test_provenance_lists_the_artifacts_of_all_variations(smk: Run, tmp_path: Path) -> None:
    build = run_case(smk, "plan_systematics", tmp_path)
    manifest = json.loads((build / "artifacts/provenance/manifest.json").read_text())
    names = {record["artifact"].split("/")[1] for record in manifest["records"]}
    assert names == set(cases.case("plan_systematics").variations)
    assert all((build / record["record"]).is_file() for record in manifest["records"])
    command = [str(Path(sys.executable).parent / "fasthep"), "provenance"]
    summary = subprocess.run([*command, "summary", str(build)], capture_output=True, text=True)
    assert summary.returncode == 0, summary.stderr
    assert f"Records: {len(manifest['records'])}" in summary.stdout
    artifact = str(build / manifest["records"][0]["artifact"])
    shown = subprocess.run([*command, "show", artifact], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr


def test_two_sources_without_a_join_do_not_count_twice(analysis: Path, smk: Run) -> None:
    workflow = analysis / "workflow.yaml"
    text = workflow.read_text().replace(
        "sources:\n", "primary_stream: events\nsources:\n  again: {kind: root_tree, tree: events}\n"
    )
    workflow.write_text(text)
    done = smk("workflow.yaml", "-j", "2", cwd=analysis)
    assert done.returncode == 0, done.stderr
    cutflow = json.loads((analysis / "build/artifacts/cutflows/Cuts.json").read_text())
    stats = cutflow["nodes"][0]["stats"]
    assert {name: row["n_unweighted_in"] for name, row in stats.items()} == {"data": 100, "dy": 80}
