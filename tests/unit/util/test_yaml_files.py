"""YAML of people's is read as PyYAML reads it; what it cannot read is one message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.config.execution import load_site
from fasthep_smk.flow.compile import load_with_digests
from fasthep_smk.util.errors import Findings

DEEP = "a: " + "[" * 10_000 + "]" * 10_000
ALIASES = """\
x-files: &files [a.root, b.root]
x-defaults: &defaults {eventtype: mc, meta: {xsec: 1.5}}
data:
  datasets:
    - {<<: *defaults, name: d0, files: *files}
    - {<<: *defaults, name: d1, files: *files}
"""


def test_anchors_and_aliases_work(tmp_path: Path) -> None:
    path = tmp_path / "workflow.yaml"
    path.write_text(ALIASES, encoding="utf-8")
    expected: dict[str, Any] = yaml.safe_load(ALIASES)
    found = load_with_digests(path)[0]
    assert found == expected
    datasets = found["data"]["datasets"]
    assert datasets[0]["files"] is datasets[1]["files"]
    assert datasets[1]["eventtype"] == "mc"


@pytest.mark.parametrize("name", ["workflow.yaml", "part.yaml"])
def test_a_workflow_that_is_nested_too_deeply_is_one_message(tmp_path: Path, name: str) -> None:
    (tmp_path / "workflow.yaml").write_text("include: part.yaml\n", encoding="utf-8")
    (tmp_path / name).write_text(DEEP, encoding="utf-8")
    with pytest.raises(Findings, match="recursion depth") as error:
        load_with_digests(tmp_path / "workflow.yaml")
    assert len(error.value.findings) == 1


@pytest.mark.parametrize("name", ["pools.yaml", "config.yaml"])
def test_a_site_that_is_nested_too_deeply_is_one_message(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(DEEP, encoding="utf-8")
    with pytest.raises(Findings, match=rf"{name}: is nested too deeply"):
        load_site(str(tmp_path), "local", workflow="workflow.yaml")
