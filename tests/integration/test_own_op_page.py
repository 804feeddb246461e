"""The page on own operations: its code runs, and each message that it quotes is what one gets."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

import fasthep_smk
from tests.integration.conftest import Run
from tests.support import events

pytestmark = pytest.mark.integration

PAGE = Path(__file__).parents[2] / "docs/own-op.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL)
(MODULE, FIXED), (YAML,) = (
    [text for kind, text in BLOCKS if kind == wanted] for wanted in ("python", "yaml")
)
HIST = {
    "id": "Hist",
    "op": "hep.hist",
    "params": {
        "axes": [
            {
                "name": "met",
                "source": "MET_pt",
                "type": "regular",
                "bins": {"low": 0, "high": 100, "nbins": 10},
            }
        ]
    },
}
#: The mistake: what of the module or of the workflow is replaced by what.
MISTAKES = {
    "No module named 'my_op'": ("my_ops:MET", "my_op:MET"),
    "has no attribute 'MTE'": ("my_ops:MET", "my_ops:MTE"),
    "no op of this name": ("op: my.met", "op: my.mte"),
    "has no parameter of this name": ("{prefix: MET}", "{prefix: MET, outptu: x}"),
    "parameter 'prefix' is required": ("params: {prefix: MET}", "params: {}"),
    "has no branch 'MET_pt'": ('"provides": {', '"provided": {'),
    "got an unexpected keyword argument 'ctx'": (", ctx=None):", "):"),
    "no field 'MET_px'": ('"requires": {', '"required": {'),
    "it returned nothing (None)": ("return ak.with_field", "ak.with_field"),
    "it returned an array": ("return ak.with_field(stream, ", "return (lambda new, name: new)("),
    "it returned 80 events": (
        "return ak.with_field(stream, values, output)",
        "stream = ak.with_field(stream, values, output)\n"
        "    return ak.concatenate([stream, stream])",
    ),
}
#: What else is said of an operation that fails: its line, and the fix.
TOLD = {
    "no field 'MET_px' in record": (
        "my_ops.py, line 24, in met",
        "add 'MET_px', a branch of the file, to `requires` in the spec of my.met, or to "
        "sources.events.branches",
    ),
    "it returned nothing (None), but stage 'Hist' reads its result": (
        "analysis.stages['Met'].params: ",
        "my_ops.py, line 22, in met",
        "the function must return its result",
    ),
    "it returned an array, not events, but stage 'Hist' reads its result": (
        "analysis.stages['Met'].params: ",
        "my_ops.py, line 22, in met",
        "the function must end with return ak.with_field(stream, …)",
    ),
    "it returned 80 events, but got 40": (
        "analysis.stages['Met'].params: ",
        "my_ops.py, line 22, in met",
        "return one entry for each event, or fewer for a selection",
    ),
}


def write(
    folder: Path, *replaced: tuple[str, str], module: str = MODULE, block: str = YAML
) -> None:
    for old, new in replaced:
        assert (old in module) != (old in block), "it is in one of them"
        module, block = module.replace(old, new), block.replace(old, new)
    (folder / "my_ops.py").write_text(module)
    document = yaml.safe_load(block)
    document["analysis"]["stages"].append(HIST)
    document |= {
        "use": {"profiles": ["hep"]},
        "data": {"datasets": [{"name": "a", "files": ["a.root"]}]},
        "sources": {"events": {"kind": "root_tree", "tree": "events", "branches": ["EventWeight"]}},
    }
    (folder / "workflow.yaml").write_text(yaml.safe_dump(document))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    events.zmumu_file(tmp_path / "a.root", 40, 1)
    return tmp_path


def filled(folder: Path) -> float:
    found = fasthep_smk.load_results(folder / "build").histogram("Hist")
    return float(np.sum(found.values(flow=True)))


def test_its_operation_runs(folder: Path, smk: Run) -> None:
    write(folder)
    done = smk("workflow.yaml", "-q", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert filled(folder) == 40
    shown = smk("ops", "my.met", "--workflow", "workflow.yaml", cwd=folder).stdout
    assert "{prefix}_px, {prefix}_py" in shown


def test_an_operation_with_fixed_columns_runs(folder: Path, smk: Run) -> None:
    head = MODULE[: MODULE.index("MET = {")]
    block = YAML.replace("my_ops:MET", "my_ops:FIXED").replace("my_ops:met", "my_ops:fixed")
    write(folder, ("{prefix: MET}", "{}"), module=head + FIXED, block=block)
    done = smk("workflow.yaml", "-q", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert filled(folder) == 40


@pytest.mark.parametrize(
    "message",
    re.findall(
        r"^\| `([^`]+)` \| [^|]+ \|$",
        PAGE.read_text().partition("## What goes wrong")[2],
        re.MULTILINE,
    ),
)
def test_a_message_is_what_one_gets(folder: Path, smk: Run, message: str) -> None:
    (mistake,) = [one for part, one in MISTAKES.items() if part in message]
    write(folder, mistake)
    failed = smk("workflow.yaml", "-q", cwd=folder)
    assert failed.returncode == 1
    assert message in failed.stderr
    for text in TOLD.get(message, ()):
        assert text in failed.stderr


def test_every_mistake_is_on_the_page() -> None:
    assert [part for part in MISTAKES if part not in PAGE.read_text()] == []
