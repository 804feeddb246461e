"""Runs started from Python, and their results."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import hist
import pytest
import yaml

import fasthep_smk
from fasthep_smk.util.errors import Findings, RunFailed
from tests.integration.conftest import WORKFLOW
from tests.support import cases

pytestmark = pytest.mark.integration


def test_a_run_returns_its_results(analysis: Path) -> None:
    results = fasthep_smk.run("workflow.yaml", cwd=analysis, outdir="out", jobs=2, quiet=True)
    assert results.build == analysis / "out"
    assert results.variations == ("nominal",)
    (name,) = results.histograms()
    met = results.histogram(name)
    assert isinstance(met, hist.Hist)
    assert [axis.name for axis in met.axes] == ["dataset", "met"]
    cuts = results.cutflow("Cuts")["nodes"][0]["stats"]
    assert cuts["data"]["n_in"] == 100
    assert met.sum(flow=True) == sum(stats["n_out"] for stats in cuts.values())
    assert {path.name for path in results.files()} == {"0_0.root", "1_0.root", "Met.png"}
    assert results.summary()["success"] is True
    again = fasthep_smk.load_results(analysis / "out")
    assert again.histogram("Met") == met


def test_variations_have_results_of_their_own(tmp_path: Path) -> None:
    workflow = cases.case("plan_systematics").prepare(tmp_path)
    results = fasthep_smk.run(workflow, cwd=tmp_path)
    assert results.variations[0] == "nominal"
    assert set(results.variations) == {
        "nominal", "lumi_up", "lumi_down", "met_shift", "generator",
    }  # fmt: skip
    up, nominal = results.histogram("MetHist", "lumi_up"), results.histogram("MetHist")
    assert up.axes == nominal.axes
    assert up != nominal
    with pytest.raises(Findings, match="did you mean 'lumi_up'"):
        results.histogram("MetHist", "lumi_upp")
    fasthep_smk.run(workflow, cwd=tmp_path, variation="lumi_up").histogram("MetHist")
    with pytest.warns(UserWarning, match="the last run made only variation 'lumi_up'"):
        results.histogram("MetHist")


def test_a_variation_may_have_a_slash_in_its_name(tmp_path: Path) -> None:
    """FAST-HEP makes folders in folders of it; so does one whose name is the first part alone."""
    path = cases.case("plan_systematics").prepare(tmp_path)
    workflow = yaml.safe_load(path.read_text())
    (hist,) = [one for one in workflow["analysis"]["stages"] if one["id"] == "MetHist"]
    hist["id"] = "Met/Hist"
    names = ("sf", "sf/up", "sf/up/more")
    workflow["systematics"]["variations"] = [
        {"name": name, "weight": {"multiply": f"{number}.5"}}
        for number, name in enumerate(names, start=1)
    ]
    path.write_text(yaml.safe_dump(workflow))
    results = fasthep_smk.run(path, cwd=tmp_path)
    assert results.variations == ("nominal", *names)
    nominal = results.histogram("Met/Hist")
    assert nominal == results.histogram("Met_Hist")
    for number, name in enumerate(names, start=1):
        found = results.histogram("Met/Hist", name)
        assert found.values() == pytest.approx((number + 0.5) * nominal.values())
        assert results.summary(name)["variation"]["name"] == name
        (listed,) = results.histograms(name)
        assert listed == "Met_Hist"
        assert len(results.files(name)) == len(results.files())
        assert {path.name for path in results.files(name)} == {
            path.name for path in results.files()
        }
    only = fasthep_smk.run(path, cwd=tmp_path, variation="sf/up")
    assert only.histogram("Met/Hist") == results.histogram("Met/Hist", "sf/up")
    told = smk_report(tmp_path)
    for name in names:
        assert f"Met_Hist ({name})" in told
    compared = subprocess.run(
        [sys.executable, "-m", "fasthep_smk", "compare", "build", "build"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "histograms: 4" in compared.stdout


def test_without_the_nominal_plan_a_variation_has_to_be_named(tmp_path: Path) -> None:
    for name in ("up", "down"):
        summary = tmp_path / "build/reports" / name / "run_summary.yaml"
        summary.parent.mkdir(parents=True)
        summary.write_text("success: true\n")
    results = fasthep_smk.load_results(tmp_path / "build")
    with pytest.raises(Findings, match=r"has no nominal results[^$]*one of: down, up"):
        results.summary()
    assert results.summary("up") == {"success": True}


def smk_report(folder: Path) -> str:
    command = [sys.executable, "-m", "fasthep_smk", "report", "--text"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_a_translation_says_where_it_is(analysis: Path) -> None:
    translated = fasthep_smk.translate("workflow.yaml", cwd=analysis, granularity="stage")
    assert translated.snakefile.is_file()
    assert (translated.profile / "config.yaml").is_file()
    with pytest.raises(Findings, match="has no results of a finished run"):
        fasthep_smk.load_results(translated.build)


def test_what_is_wrong_is_an_exception(analysis: Path) -> None:
    with pytest.raises(RunFailed, match=r"no option --chunksize(.|\n)*did you mean --chunk-size"):
        fasthep_smk.run("workflow.yaml", cwd=analysis, chunksize=30)
    with pytest.raises(RunFailed, match="other"):
        fasthep_smk.run("other.yaml", cwd=analysis)
    with pytest.raises(RunFailed, match="--jobs: '0' is neither a positive whole number"):
        fasthep_smk.run("workflow.yaml", cwd=analysis, jobs=0)
    with pytest.raises(RunFailed, match="-n"):
        fasthep_smk.run("-n", cwd=analysis)
    with pytest.raises(TypeError, match="a dry run has no results"):
        fasthep_smk.run("workflow.yaml", cwd=analysis, dry_run=True)
    with pytest.raises(TypeError, match="outdir must be a path"):
        fasthep_smk.run("workflow.yaml", cwd=analysis, outdir=["a", "b"])
    with pytest.raises(TypeError, match="profile takes one value"):
        fasthep_smk.run("workflow.yaml", cwd=analysis, profile=["a", "b"])
    results = fasthep_smk.run("workflow.yaml", cwd=analysis, rerun={"Met"})
    with pytest.raises(Findings, match="did you mean 'Met'"):
        results.histogram("met")


def test_the_names_are_functions_whatever_else_was_imported(analysis: Path) -> None:
    from fasthep_smk.run import engine  # noqa: F401
    from fasthep_smk.translate import translation  # noqa: F401

    assert fasthep_smk.translate("workflow.yaml", cwd=analysis).snakefile.is_file()
    assert fasthep_smk.run("workflow.yaml", cwd=analysis, quiet=True).variations == ("nominal",)


@pytest.mark.long
def test_results_are_those_of_the_last_run(tmp_path: Path) -> None:
    workflow = cases.case("plan_systematics").prepare(tmp_path)
    plain = yaml.safe_load(workflow.read_text())
    del plain["systematics"]
    (tmp_path / "plain.yaml").write_text(yaml.safe_dump(plain, sort_keys=False))
    assert fasthep_smk.run("plain.yaml", cwd=tmp_path).variations == ("nominal",)
    one = fasthep_smk.run(workflow, cwd=tmp_path, variation="lumi_up")
    assert one.variations == ("lumi_up",)
    assert one.histogram("MetHist") == one.histogram("MetHist", "lumi_up")


def test_an_interrupt_is_handed_on_once(analysis: Path) -> None:
    with_own_op(analysis, "__import__('time').sleep(60)")
    # The tests may run in the background of a script, where Ctrl-C is ignored.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import fasthep_smk; fasthep_smk.run('workflow.yaml')"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=analysis,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    end = time.monotonic() + 60
    while not list(analysis.glob("build/smk/failures/*/*.json")):
        assert time.monotonic() < end, "no job has begun"
        time.sleep(0.1)
    time.sleep(3)  # the operation has begun, too
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=150)
    assert process.returncode != 0
    assert "fasthep-smk: stopped; finished jobs are kept" in said
    assert said.rstrip().endswith("KeyboardInterrupt")


def test_an_own_op_that_is_edited_counts_in_the_same_process(analysis: Path) -> None:
    passed = []
    for factor in ("1", "0"):
        with_own_op(analysis, factor)
        cutflow = fasthep_smk.run("workflow.yaml", cwd=analysis).cutflow("Cuts")
        passed.append(cutflow["nodes"][0]["stats"]["data"]["n_out"])
    assert passed[0] > passed[1]


def with_own_op(analysis: Path, factor: str) -> None:
    """Let the analysis begin with an operation that multiplies a column by a factor."""
    (analysis / "own_ops.py").write_text(OPS.replace("FACTOR", factor))
    text = WORKFLOW.replace("  stages:\n", "  stages:\n    - {id: Own, op: own.weight}\n")
    registry = "registry: {transforms: {own.weight: {spec: 'own_ops:SPEC', impl: 'own_ops:run'}}}\n"
    (analysis / "workflow.yaml").write_text(registry + text)


OPS = """
import awkward as ak

SPEC = {"name": "own.weight", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}


def run(*, stream, **_):
    return ak.with_field(stream, stream["MET_px"] * FACTOR, "MET_px")
"""
