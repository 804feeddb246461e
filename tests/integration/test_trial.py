"""The first events go through FAST-HEP's own operations before anything runs.

The mistakes that this finds are those of ``tests/mistakes/types.yaml``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import fasthep_smk.flow.trial
from fasthep_smk.cli.main import main
from tests.support import events

pytestmark = pytest.mark.integration

STAGES = """\
    - {id: Own, op: my.op, params: {output: Score}}
    - id: Vars
      op: hep.define
      params:
        variables:
          - {name: OfScore, expr: "sqrt(Score)"}
          - {name: Pt, expr: "sqrt(Muon_Px**2 + Muon_Py**2)"}
          - {name: MET, expr: "sqrt(MET_px**2 + MET_py**2)"}
    - id: Cuts
      op: hep.selection.cutflow
      params: {weight_expr: EventWeight, selection: {Loose: ["MET > 0", "OfScore > 0"]}}
    - id: Hist
      op: hep.hist
      from: Vars
      params:
        axes: [{name: x, source: MET, type: regular, bins: {low: 0, high: 200, nbins: 40}}]
"""
MODULE = """\
import awkward as ak

SPEC = {
    "name": "my.op", "kind": "transform", "version": "1.0",
    "input": {"name": "stream", "kind": "event_stream", "required": True},
    "params": {"output": {"required": True}},
    "result": {"kind": "event_stream"},
    "provides": {"symbols": [{"from": "params.output", "kind": "field_list"}]},
}


def run(*, stream, output, ctx=None, **_):
    open("it_has_run", "a").close()
    return ak.with_field(stream, stream["Muon_Px"] if LISTS else stream["MET_px"] ** 2, output)
"""


@pytest.fixture
def analysis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    events.zmumu_file(tmp_path / "none.root", 0, 1)
    events.zmumu_file(tmp_path / "dy.root", 50, 2)
    (tmp_path / "trial_ops.py").write_text(f"LISTS = False\n{MODULE}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def write(folder: Path, *edits: tuple[str, str]) -> None:
    stages = STAGES
    for old, new in edits:
        assert old in stages, old
        stages = stages.replace(old, new)
    document = {
        "use": {"profiles": ["hep"]},
        "registry": {
            "transforms": {"my.op": {"spec": "trial_ops:SPEC", "impl": "trial_ops:run"}},
            "functions": {"mine": "trial_ops:run"},
        },
        "data": {"datasets": [{"name": "dy", "files": ["none.root", "dy.root"]}]},
        "sources": {"events": {"kind": "root_tree", "tree": "events"}},
        "analysis": yaml.safe_load(f"stages:\n{stages}"),
    }
    (folder / "workflow.yaml").write_text(yaml.safe_dump(document, sort_keys=False))


def check(capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = main(["check", "workflow.yaml"])
    return status, capfd.readouterr().err


def test_an_own_operation_is_not_run_and_what_reads_its_columns_is_not_refused(
    analysis: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(analysis, ('"OfScore > 0"', '"OfScore * 2 > leading(Score)"'))
    assert check(capfd) == (0, "")
    assert not (analysis / "it_has_run").exists()


def test_what_does_not_read_them_is_tried_behind_it_and_gives_warnings(
    analysis: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """An own operation may change other columns than its spec says."""
    write(
        analysis,
        ("sqrt(Muon_Px**2 + Muon_Py**2)", "Muon_Px * Jet_Px"),
        ("weight_expr: EventWeight", "weight_expr: Muon_Iso"),
        ('"OfScore > 0"', '"MET > 1"'),
    )
    status, said = check(capfd)
    assert status == 0
    first, second = said.splitlines()
    assert (
        "warning: analysis.stages['Vars'].params.variables[1].expr: 'Muon_Px * Jet_Px': " in first
    )
    assert "fails: ValueError: cannot broadcast" in first
    assert "params.weight_expr: 'Muon_Iso': this weight has a list of values" in second
    assert "unless an operation of your own changes a column before" in second


def test_an_own_function_is_not_called(analysis: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(analysis, ('"sqrt(Score)"', '"mine(MET_px)"'))
    assert check(capfd) == (0, "")
    assert not (analysis / "it_has_run").exists()


def test_what_cannot_be_tried_is_told_and_not_refused(
    analysis: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no memory for it")

    monkeypatch.setattr(fasthep_smk.flow.trial, "_own_functions", fail)
    write(analysis)
    status, said = check(capfd)
    assert status == 0
    assert "was not tried with its first events (RuntimeError: no memory for it)" in said


def test_a_list_as_weight_behind_an_own_operation_ends_the_job_and_a_trial_is_made_once(
    analysis: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAST-HEP would sum all values of all events."""
    score = ("weight_expr: EventWeight", "weight_expr: Score")
    write(analysis, score, (', "OfScore > 0"', ""))
    (analysis / "trial_ops.py").write_text(f"LISTS = True\n{MODULE}")
    run = ["run", "workflow.yaml", "-j1"]
    assert main(run) == 1
    said = capfd.readouterr().err
    assert "Score: this weight has a list of values for each event" in said

    (analysis / "trial_ops.py").write_text(f"LISTS = False\n{MODULE}")
    monkeypatch.setattr(fasthep_smk.flow.trial.Trial, "findings", None)  # it would raise
    assert main(run) == 0, capfd.readouterr().err
