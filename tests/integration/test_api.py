"""Runs started from Python, and their results."""

from __future__ import annotations

from pathlib import Path

import hist
import pytest

import fasthep_smk
from fasthep_smk.util.errors import Findings, RunFailed
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


def test_a_translation_says_where_it_is(analysis: Path) -> None:
    translated = fasthep_smk.translate("workflow.yaml", cwd=analysis, granularity="stage")
    assert translated.snakefile.is_file()
    assert (translated.profile / "config.yaml").is_file()
    with pytest.raises(Findings, match="has no results of a finished run"):
        fasthep_smk.load_results(translated.build)


def test_what_is_wrong_is_an_exception(analysis: Path) -> None:
    with pytest.raises(TypeError, match="no option 'chunksize'; did you mean 'chunk_size'"):
        fasthep_smk.run("workflow.yaml", cwd=analysis, chunksize=30)
    with pytest.raises(RunFailed, match="other"):
        fasthep_smk.run("other.yaml", cwd=analysis)
    results = fasthep_smk.run("workflow.yaml", cwd=analysis)
    with pytest.raises(Findings, match="did you mean 'Met'"):
        results.histogram("met")


def test_an_own_op_that_is_edited_counts_in_the_same_process(analysis: Path) -> None:
    (analysis / "own_ops.py").write_text(OPS.replace("FACTOR", "1"))
    text = (analysis / "workflow.yaml").read_text()
    text = text.replace("  stages:\n", "  stages:\n    - {id: Own, op: own.weight}\n")
    registry = "registry: {transforms: {own.weight: {spec: 'own_ops:SPEC', impl: 'own_ops:run'}}}\n"
    (analysis / "workflow.yaml").write_text(registry + text)
    first = fasthep_smk.run("workflow.yaml", cwd=analysis).cutflow("Cuts")
    (analysis / "own_ops.py").write_text(OPS.replace("FACTOR", "0"))
    second = fasthep_smk.run("workflow.yaml", cwd=analysis).cutflow("Cuts")
    passed = [one["nodes"][0]["stats"]["data"]["n_out"] for one in (first, second)]
    assert passed[0] > passed[1]


OPS = """
import awkward as ak

SPEC = {"name": "own.weight", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}


def run(*, stream, **_):
    return ak.with_field(stream, stream["MET_px"] * FACTOR, "MET_px")
"""
