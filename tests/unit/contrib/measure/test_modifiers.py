"""Modifiers that measure a node: what they write, and that they leave no trace elsewhere."""

from __future__ import annotations

import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fasthep_smk.contrib.measure.modifiers import Measured, Memory, Profile
from fasthep_smk.flow.reads import is_diagnostic

PARTITION = {"dataset": "data", "part": "1_0"}
NODE = SimpleNamespace(id="stage.Vars")


def worked(stop: float = 0.05) -> list[np.ndarray]:
    """Take some time, hold 24 MB meanwhile, and 8 MB in the end."""
    held = [np.ones(1_000_000), np.ones(2_000_000)]
    end = time.process_time() + stop
    while time.process_time() < end:
        sum(range(1000))
    return held[:1]


def measured(modifier: Measured, folder: Path, **ctx: Any) -> str:
    """The page that a modifier writes of ``worked``."""
    ctx = {"outdir": str(folder), "partition": PARTITION, **ctx}
    with modifier.around_node(node=NODE, inputs={}, ctx=ctx):
        held = worked()
    assert len(held) == 1
    (path,) = folder.glob("artifacts/profiles/Vars/data_1_0.*.html")
    return path.read_text()


def test_the_time_of_a_function_is_in_its_frame(tmp_path: Path) -> None:
    page = measured(Profile(), tmp_path)
    assert "<title>Time of Vars, data, 1_0</title>" in page
    (seconds,) = re.findall(r'title="worked \([^"]*?: ([\d.]+) s, ', page)
    assert 0.04 < float(seconds) < 5


def test_what_a_call_holds_when_it_is_the_most_is_in_its_frame(tmp_path: Path) -> None:
    page = measured(Memory(), tmp_path)
    (most,) = re.findall(r"held ([\d.]+) MB more than at its start", page)
    assert 20 < float(most) < 30
    amounts = re.findall(r'title="[^"]*?test_modifiers[^"]*?: ([\d.]+) MB, ', page)
    assert any(23 < float(one) < 27 for one in amounts)  # also what is given back at the end


def test_nothing_is_written_of_a_node_that_fails(tmp_path: Path) -> None:
    ctx = {"outdir": str(tmp_path), "partition": PARTITION}
    with pytest.raises(ZeroDivisionError), Profile().around_node(node=NODE, ctx=ctx):
        _ = 1 / 0
    assert not [*tmp_path.iterdir()]


def test_only_ours_are_known_to_change_nothing() -> None:
    ours = {"impl": "fasthep_smk.contrib.measure.modifiers:Profile"}
    registry = {"execution_modifiers": {"smk.profile": ours, "smk.memory": {"impl": "own:Own"}}}
    assert is_diagnostic(registry, "smk.profile")
    assert not is_diagnostic(registry, "smk.memory")
    assert not is_diagnostic(registry, "gpu.preload")
