"""Parameters that no operation reads are refused before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import events, warm

pytestmark = pytest.mark.integration

MODULE = """\
SPEC = {
    "name": "own.op", "kind": "transform", "version": "1.0",
    "input": {"name": "stream", "kind": "event_stream", "required": True},
    "params": {"scale": {"required": False}}, "result": {"kind": "event_stream"},
}

def careful(*, stream, scale=1, **_):
    return stream

def open_minded(*, stream, **options):
    return stream if options.get("anything") else stream
"""


def check(folder: Path, *stages: dict[str, Any]) -> tuple[int, str]:
    """The exit status of `fasthep-smk check` of a workflow with these stages, and what it says."""
    events.zmumu_file(folder / "a.root", 10, 0)
    (folder / "own_ops.py").write_text(MODULE)
    transforms = {
        f"own.{name}": {"spec": "own_ops:SPEC", "impl": f"own_ops:{name}"}
        for name in ("careful", "open_minded")
    }
    document = {
        "use": {"profiles": ["hep"]},
        "registry": {"transforms": transforms},
        "data": {"datasets": [{"name": "a", "files": ["a.root"]}]},
        "sources": {"events": {"kind": "root_tree", "tree": "events"}},
        "analysis": {"stages": [{"id": "A", **one} for one in stages]},
    }
    (folder / "workflow.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    done = warm.run("check", "workflow.yaml", cwd=folder)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (
            {"op": "hep.di_object_mass", "params": {"colection": "Muon"}},
            """\
- workflow.yaml: analysis.stages['A'].params.colection: hep.di_object_mass has no parameter of \
this name
    at: workflow.yaml, line 26
    expected: collection, mask, out_var
    hint: did you mean 'collection'?
""",
        ),
        (
            {"op": "hep.selection.flag", "params": {"selection": ["MET_px > 0"], "outpt": "x"}},
            "hint: did you mean 'output'?\n",
        ),
        (
            {"op": "own.careful", "params": {"scal": 2}},
            "params.scal: own.careful has no parameter of this name\n",
        ),
        (
            {
                "op": "own.careful",
                "write": {"kind": "root_tree", "path": "x.root", "kep": ["MET_px"]},
            },
            "kep: root_tree has no parameter of this name\n",
        ),
    ],
)
def test_a_parameter_that_nobody_reads_is_named(
    tmp_path: Path, stage: dict[str, Any], message: str
) -> None:
    status, said = check(tmp_path, stage)
    assert status == 1
    assert message in said


@pytest.mark.parametrize(
    "stage",
    [
        {"op": "own.open_minded", "params": {"anything": 1, "more": 2}},
        {"op": "own.careful", "params": {"scale": 2}},
        {
            "op": "own.careful",
            "write": [{"kind": "root_tree", "path": "x.root", "when": "dataset", "tree": "t"}],
        },
    ],
)
def test_what_an_operation_reads_is_not_refused(tmp_path: Path, stage: dict[str, Any]) -> None:
    status, said = check(tmp_path, stage)
    assert (status, "ready to run" in said) == (0, True), said
