"""What an operation of a user's own makes: as ``fasthep run``, or a message; NaN weights are told.

The types one by one are those of ``tests/unit/flow/test_column_types.py``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import uproot
import yaml

from tests.integration.conftest import Run
from tests.support import warm
from tests.support.compare import compare_builds

pytestmark = pytest.mark.integration

MODULE = """\
import awkward as ak
import numpy as np

SPEC = {
    "name": "my.op", "kind": "transform", "version": "1.0",
    "input": {"name": "stream", "kind": "event_stream", "required": True},
    "params": {"made": {"required": True}, "outputs": {"required": True}},
    "result": {"kind": "event_stream"},
    "provides": {"symbols": [{"from": "params.outputs.*", "kind": "field_list"}]},
}


def run(*, stream, made, outputs=None, ctx=None, **_):
    return ak.with_field(stream, eval(made, {"ak": ak, "np": np, "x": stream.x}), "v")
"""


def write(folder: Path, made: str, *stages: str) -> None:
    """Write an analysis of three files: of the first, three weights are NaN, and of the last two.

    ``made`` is how an operation of a user's own makes a column; without, it is FAST-HEP's.
    """
    for name, odd in (("a", 3), ("b", 0), ("c", 2)):
        weights = np.ones(50)
        weights[:odd] = np.nan
        if (folder / f"{name}.root").exists():  # an edit leaves the files as they are
            continue
        with uproot.recreate(folder / f"{name}.root") as out:
            out.mktree("Events", {"x": np.linspace(0, 1, 50), "w": weights})
    (folder / "columns_ops.py").write_text(MODULE)
    own = {"spec": "columns_ops:SPEC", "impl": "columns_ops:run"}
    document = {
        "use": {"profiles": ["hep"]},
        "registry": {"transforms": {"my.op": own}},
        "data": {
            "datasets": [
                {"name": "dy", "files": ["a.root", "b.root"]}, {"name": "tt", "files": ["c.root"]},
            ]
        },
        "sources": {"events": {"kind": "root_tree", "tree": "Events", "branches": ["x", "w"]}},
        "analysis": {
            "stages": [
                {"id": "Own", "op": "my.op", "params": {"made": made, "outputs": {"v": "v"}}}
                if made
                else {"id": "V", "op": "hep.define", "params": {"variables": [VARIABLE]}},
                *map(yaml.safe_load, stages),
            ]
        },
    }  # fmt: skip
    (folder / "workflow.yaml").write_text(yaml.safe_dump(document, sort_keys=False))


#: In how many events of a dataset the weight is NaN.
ODD = [("dy", 3), ("tt", 2)]
VARIABLE = {"name": "v", "expr": "x * 7"}
AXIS = "{name: v, source: v, type: regular, bins: {nbins: 7, low: 0, high: 7}}"
HIST = f"{{id: H, op: hep.hist, params: {{dataset_axis: true, axes: [{AXIS}]}}}}"
WEIGHTED = (
    f"{{id: W, op: hep.hist, params: {{storage: weighted, weight_expr: 'w * 2', axes: [{AXIS}]}}}}"
)


def run_fasthep(folder: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(folder)}
    outdir = str(folder / "reference")
    warm.fasthep("run", "workflow.yaml", "--outdir", outdir, cwd=folder, env=env)


@pytest.mark.parametrize(
    "made",
    [
        "ak.values_astype(x * 300, 'uint16')",
        "ak.from_numpy(np.tile(np.asarray(x)[:, np.newaxis], 3), regulararray=True)",
        "ak.unflatten(np.repeat(x, 2), np.full(len(x), 2))",
        "ak.mask(x, x >= 0)",
    ],
)
def test_columns_that_are_right_give_what_fasthep_run_gives(
    smk: Run, tmp_path: Path, made: str
) -> None:
    write(tmp_path, made, HIST)
    run_fasthep(tmp_path)
    done = smk("workflow.yaml", "-j", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    ignore = ("artifacts/provenance/*",)
    assert not compare_builds(tmp_path / "reference", tmp_path / "build", ignore=ignore)


@pytest.mark.parametrize(
    ("made", "stage", "says"),
    [
        (
            "ak.mask(x, x > 0.5)",
            HIST.replace("axes:", "weight_expr: x, axes:"),
            "v: 25 of its values are missing (None): they would be dropped",
        ),
        ("x * (1 + 1j)", HIST, "v: its values are of type complex128, but must be numbers"),
        (
            "np.asarray(x)[:, np.newaxis]",
            "{id: D, op: hep.define, params: {variables: [{name: made, expr: x * v}]}}",
            "x * v: x: its values cannot be paired with those of v, event by event",
        ),
    ],
)
def test_columns_that_would_lose_events_end_the_job_with_a_message(
    smk: Run, tmp_path: Path, made: str, stage: str, says: str
) -> None:
    write(tmp_path, made, stage, HIST.replace("id: H", "id: Last"))
    done = smk("workflow.yaml", "-j", "1", cwd=tmp_path)
    assert done.returncode == 1
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_missing_values_of_a_single_axis_are_left_out_as_by_fasthep_and_told(
    smk: Run, tmp_path: Path
) -> None:
    write(tmp_path, "ak.mask(x, x > 0.5)", HIST)
    run_fasthep(tmp_path)
    done = smk("workflow.yaml", "-j", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = "values of its axis are missing (None), so they are in no bin: 25 in a.root"
    assert said in " ".join(done.stderr.split())
    ignore = ("artifacts/provenance/*", "reports/warnings.md")
    assert not compare_builds(tmp_path / "reference", tmp_path / "build", ignore=ignore)


def test_weights_that_are_no_numbers_are_told_once_per_stage_and_cost_no_reuse(
    smk: Run, tmp_path: Path
) -> None:
    def told(stage: str) -> str:
        return (
            f"warning: stage {stage!r}: 5 events have a NaN or infinite weight, which spoils "
            "their bins and sums: 3 in a.root (dataset 'dy'), 2 in c.root (dataset 'tt')"
        )

    def warnings(text: str) -> list[str]:
        return [line.partition(": ")[2] for line in text.splitlines() if "warning:" in line]

    def listed() -> list[tuple[str, str, int]]:
        summary = yaml.safe_load((tmp_path / "build/run_summary.yaml").read_text())
        found = [
            (one["node_id"], one["dataset_name"], one["events"]) for one in summary["warnings"]
        ]
        return sorted(found)

    several = [WEIGHTED.replace("id: W", f"id: W{number}") for number in range(3)]
    write(tmp_path, "", *several)
    run_fasthep(tmp_path)
    done = smk("workflow.yaml", "-j", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert warnings(done.stderr) == [told("W0"), told("W1"), told("W2")]
    expected = [(f"stage.W{n}", dataset, count) for n in range(3) for dataset, count in ODD]
    assert listed() == expected
    ignore = ("artifacts/provenance/*", "reports/warnings.md")
    assert not compare_builds(tmp_path / "reference", tmp_path / "build", ignore=ignore)

    # A stage more: what has run is adopted, with its warning.
    cutflow = (
        "{id: C, op: hep.selection.cutflow, params: {weight_expr: w, selection: {A: [x > 0]}}}"
    )
    write(tmp_path, "", *several, cutflow)
    done = smk("workflow.yaml", "-j", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert warnings(done.stderr) == [told("W0"), told("W1"), told("W2"), told("C")]
    assert listed() == [*(("stage.C", dataset, count) for dataset, count in ODD), *expected]
    records = [
        json.loads(path.read_text()) for path in (tmp_path / "build/smk/work").rglob("record.json")
    ]
    parts = [one["ran"] for one in records if one["rule"].startswith("stages") and "ran" in one]
    assert len(parts) == 3
    assert all("stage.C" in ran and "stage.W1" not in ran for ran in parts)

    # Nothing runs, and the results are still those.
    done = smk("workflow.yaml", "-j", "1", cwd=tmp_path)
    assert "everything was up to date" in done.stdout
    assert warnings(done.stderr) == [told("W0"), told("W1"), told("W2"), told("C")]

    # Another weight: there is nothing more to tell.
    write(tmp_path, "", WEIGHTED.replace("w * 2", "x * 2"))
    done = smk("workflow.yaml", "-j", "1", cwd=tmp_path)
    assert warnings(done.stderr) == []
    assert not (tmp_path / "build/reports/warnings.md").exists()
