"""Values that know their places are equal to those that FAST-HEP reads."""

from __future__ import annotations

from pathlib import Path

import yaml

from fasthep_smk.flow import locations, upstream
from fasthep_smk.flow.patches.yaml_places import yaml_places


def test_the_merged_document_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "part.yaml").write_text("analysis: {globals: {cut: 20.0, name: a}}\n")
    path = tmp_path / "workflow.yaml"
    path.write_text("includes: [part.yaml]\nanalysis:\n  globals: {name: b, on: 2026-10-01}\n")
    usual = upstream.load_workflow_with_includes(str(path)).doc
    with yaml_places(locations._Loader):
        placed = upstream.load_workflow_with_includes(str(path)).doc
    assert placed == usual
    assert placed["analysis"]["globals"]["name"].line == 3
    assert type(yaml.safe_load("a")) is str  # after the block
