"""The first events go through the whole workflow before anything runs.

The mistakes that this finds are among those of ``tests/mistakes``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fasthep_smk.cli.main import main
from fasthep_smk.translate import flights
from tests.support import events, warm

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
    with open("ran_with", "a") as file:
        print(len(stream), file=file)
    return ak.with_field(stream, score(stream), output)


def score(stream):
    """
PLAIN = 'return stream["MET_px"] ** 2'
RENDER = "      render: {style: plot}\n"


@pytest.fixture
def analysis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    events.zmumu_file(tmp_path / "none.root", 0, 1)
    events.zmumu_file(tmp_path / "dy.root", 5000, 2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def write(
    folder: Path, *edits: tuple[str, str], body: str = PLAIN, more: dict[str, object] | None = None
) -> None:
    module = f"ops_of_{folder.name}"  # each test imports its own
    (folder / f"{module}.py").write_text(MODULE + body.replace("\n", "\n    ") + "\n")
    stages = STAGES
    for old, new in edits:
        assert old in stages, old
        stages = stages.replace(old, new)
    document = {
        "use": {"profiles": ["hep"]},
        "registry": {"transforms": {"my.op": {"spec": f"{module}:SPEC", "impl": f"{module}:run"}}},
        "data": {"datasets": [{"name": "dy", "files": ["none.root", "dy.root"]}]},
        "sources": {"events": {"kind": "root_tree", "tree": "events"}},
        "analysis": yaml.safe_load(f"stages:\n{stages}"),
        **(more or {}),
    }
    (folder / "workflow.yaml").write_text(yaml.safe_dump(document, sort_keys=False))


def ran_with(folder: Path) -> list[int]:
    """How many events the operation got each time that it ran."""
    path = folder / "ran_with"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def check(capfd: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    capfd.readouterr()
    status = main(["check", "workflow.yaml", *options])
    return status, capfd.readouterr().err


def test_an_own_operation_runs_with_the_first_events_of_the_first_file_that_has_some(
    analysis: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(analysis)
    status, said = check(capfd)
    assert status == 0
    assert ran_with(analysis) == [100]
    assert said == (
        "fasthep-smk: warning: an operation wrote ran_with in a trial with the first 100 events: "
        "remove the file before the run if its content depends on events\n"
    )


def test_what_does_not_fit_its_columns_is_refused_at_its_line(
    analysis: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(analysis, body='return stream["Muon_Px"]')
    status, said = check(capfd)
    assert status == 1
    assert "stages['Cuts'].params.selection.Loose[1]: hep.selection.cutflow fails: " in said
    assert "non-event-level" in said
    assert "found: OfScore > 0" in said
    assert "    at: workflow.yaml, line " in said
    assert "tried with events of dy.root" in said
    assert ran_with(analysis) == [100, 100, 2000, 2000], "of a few events, none may have a muon"


def test_what_does_not_need_the_stage_that_fails_is_tried_as_well(
    analysis: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    axis = ("axes: [", "storage: weighted\n        weight_expr: leading(MET)\n        axes: [")
    other = ('"MET > 0"', '"Muon_Px > Jet_Px"')
    write(analysis, other, axis)
    status, said = check(capfd)
    assert status == 1
    assert "2 problems" in said, said
    assert "stages['Cuts'].params.selection.Loose[0]" in said
    assert "stages['Hist'].params.weight_expr: hep.hist fails: " in said


def test_an_error_of_an_own_operation_is_told_with_its_line(
    analysis: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(analysis, body='return {}["missing"]')
    status, said = check(capfd)
    assert status == 1
    assert "stages['Own'].params: my.op fails: KeyError: 'missing' (ops_of_" in said


def test_a_plot_that_cannot_be_drawn_is_refused(
    analysis: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    styles = {"plot": {"op": "hep.render.hist1d", "figure": {"size": [6, "wide"]}}}
    edit = ("nbins: 40}}]\n", "nbins: 40}}]\n" + RENDER)
    write(analysis, edit, more={"styles": styles})
    status, said = check(capfd)
    assert status == 1
    assert "stages['Hist'].render[0]: hep.render.hist1d fails: " in said
    # A small run makes its plots in seconds, and keeps all else.
    assert main(["translate", "workflow.yaml"]) == 0
    monkeypatch.setattr(flights, "_LARGE", 1000)
    assert main(["translate", "workflow.yaml"]) == 1


@pytest.mark.parametrize("factor", ["{'dy': 1.0}[dataset_name]", "dataset_xs"])
def test_what_fails_for_one_dataset_among_others_of_its_kind_is_refused(
    factor: str, analysis: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of a dataset that is like an earlier one, only what asks for it runs, and own operations."""
    events.zmumu_file(analysis / "tt.root", 5000, 3)
    datasets = [{"name": name, "files": [f"{name}.root"]} for name in ("dy", "tt")]
    datasets[0]["xs"] = 2.0
    edit = ('expr: "sqrt(MET_px**2 + MET_py**2)"', f'expr: "MET_px * {factor}"')
    write(analysis, edit, more={"data": {"datasets": datasets}})
    status, said = check(capfd)
    assert status == 1
    assert "(tried with events of tt.root)" in said
    write(analysis, more={"data": {"datasets": datasets[1:]}})
    assert main(["check", "workflow.yaml"]) == 0
    write(analysis, more={"data": {"datasets": [{**one, "xs": 1.0} for one in datasets]}})
    (analysis / "ran_with").unlink()
    assert main(["translate", "workflow.yaml"]) == 0
    assert ran_with(analysis) == [100, 100]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (PLAIN, "warning: sources.events: root_tree fails: "),
        ('return stream["Muon_Px"]', "stages['Cuts'].params.selection.Loose[1]: hep.selection"),
    ],
)
def test_where_a_file_cannot_be_read_the_other_datasets_are_tried(
    body: str, told: str, analysis: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content = bytearray((analysis / "dy.root").read_bytes())
    third = len(content) // 3
    content[third : 2 * third] = bytes(third)
    (analysis / "broken.root").write_bytes(content)
    datasets = [{"name": name, "files": [f"{name}.root"]} for name in ("broken", "dy")]
    write(analysis, body=body, more={"data": {"datasets": datasets}})
    status, said = check(capfd)
    assert status == (0 if body == PLAIN else 1), said
    assert told in said
    assert ran_with(analysis)[0] == 100


def test_what_has_no_event_left_is_a_warning(
    analysis: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    body = 'if len(stream) == 0: raise ValueError("no event")\nreturn stream["MET_px"]'
    none = "{id: Nothing, op: hep.selection.cutflow, params: {selection: {Rare: ['MET_px > 1e9']}}}"
    write(analysis, ("    - {id: Own", f"    - {none}\n    - {{id: Own"), body=body)
    status, said = check(capfd)
    assert status == 0, said
    assert "warning: analysis.stages['Own'].params: my.op fails: ValueError: no event" in said


def test_an_operation_that_never_returns_is_a_warning(
    analysis: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flights, "_LONGEST", 3.0)
    write(analysis, body='import time\ntime.sleep(600)\nreturn stream["MET_px"]')
    status, said = check(capfd)
    assert status == 0, said
    assert "warning: analysis.stages['Own']: my.op did not end within 3 s" in said


@pytest.mark.parametrize("how", ["os._exit(0)", "os._exit(3)", "os.kill(os.getpid(), 11)"])
def test_an_operation_that_ends_the_process_is_refused(
    how: str, analysis: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(analysis, body=f"import os\n{how}")
    status, said = check(capfd)
    assert status == 1, said
    assert "analysis.stages['Own']: my.op ended the process" in said


def test_an_operation_that_wants_more_memory_than_there_is_is_a_warning(
    analysis: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(analysis, body="import numpy as np\nreturn np.ones(1 << 42)")
    status, said = check(capfd)
    assert status == 0, said
    assert "stages['Own'].params: my.op fails: " in said
    assert "Unable to allocate" in said


def test_what_needs_a_gpu_is_left_out_and_said_so(
    analysis: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pools = {"execution": {"pools": {"fast": {"resources": {"gpus": 1}}}}}
    own = ("params: {output: Score}", "params: {output: Score}, execution: {require: fast}")
    write(analysis, own, more=pools)
    status, said = check(capfd, "--shrink-to-fit")
    assert status == 0, said
    assert "stages that need workers of their pool ('Own'), and" in said
    assert ran_with(analysis) == []


def test_what_has_passed_does_not_run_again(analysis: Path) -> None:
    write(analysis)
    assert main(["translate", "workflow.yaml"]) == 0
    assert main(["translate", "workflow.yaml"]) == 0
    assert ran_with(analysis) == [100]
    write(analysis, ("nbins: 40", "nbins: 20"))
    assert main(["translate", "workflow.yaml"]) == 0
    assert ran_with(analysis) == [100] * 2, "the histogram needs what it makes"


def artifacts(build: Path) -> dict[str, bytes]:
    found = (path for path in (build / "artifacts").rglob("*") if path.is_file())
    return {str(path.relative_to(build)): path.read_bytes() for path in found}


def test_what_it_makes_stays_out_of_the_build_folder(analysis: Path) -> None:
    build = analysis / "build"
    write(analysis)
    assert main(["translate", "workflow.yaml"]) == 0
    assert artifacts(build) == {}
    assert [path.name for path in build.iterdir() if path.is_file()] == []

    assert warm.run("workflow.yaml", cwd=analysis).returncode == 0
    finished = artifacts(build)
    assert "artifacts/histograms/Hist.pkl" in finished
    write(analysis, body=f"assert len(stream) <= 100\n{PLAIN}")
    failed = warm.run("workflow.yaml", cwd=analysis)
    assert failed.returncode == 1
    assert "AssertionError" in failed.stderr
    assert artifacts(build) == finished, "results of all events, not of the first ones"


def test_what_it_makes_does_not_replace_results_elsewhere(
    analysis: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """FAST-HEP's writers, renderers and sinks may write anywhere."""
    away = analysis / "elsewhere"
    skim = {"kind": "root_tree", "path": str(away / "skim.root")}
    plot = {"op": "hep.render.hist1d", "style": {"experiment": "ROOT"}}
    write(analysis, more={"styles": {"plot": plot}})
    document = yaml.safe_load((analysis / "workflow.yaml").read_text())
    cuts, hist = document["analysis"]["stages"][-2:]
    cuts["write"] = skim
    hist["render"] = {"style": "plot", "out": str(away / "plot"), "when": "final"}
    params = {"path": str(away / "sink" / "{dataset}-{part}.root"), "keep": ["MET"]}
    sink = {"id": "Sink", "role": "sink", "op": "root_tree", "from": "Cuts", "params": params}
    document["analysis"]["stages"].append(sink)
    (analysis / "workflow.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    assert check(capfd)[0] == 0
    assert ran_with(analysis) == [100]
    assert not away.exists()


def test_what_is_not_wanted_does_not_run(analysis: Path) -> None:
    write(analysis, body='return {}["missing"]')
    assert main(["check", "workflow.yaml", "--no-preflight"]) == 0
    for words in (["run", "-n"], ["why"], ["explain"], ["forecast"]):
        assert main([words[0], "workflow.yaml", *words[1:]]) == 0
    assert ran_with(analysis) == []
