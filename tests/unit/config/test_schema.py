"""The schema of a workflow as one document, as editors get it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from fasthep_smk.config.schema import bundled

ROOT = Path(__file__).parents[3]
TEMPLATE = ROOT / "fasthep_smk/cli/templates/first/workflow.yaml"


def references(content: object) -> Iterator[str]:
    if isinstance(content, list):
        for one in content:
            yield from references(one)
    elif isinstance(content, dict):
        if isinstance(content.get("$ref"), str):
            yield content["$ref"]
        for one in content.values():
            yield from references(one)


def test_it_refers_to_nothing_outside() -> None:
    whole = bundled()
    parts = whole["$defs"]
    assert isinstance(parts, dict)
    named = {reference.removeprefix("#/$defs/") for reference in references(whole)}
    assert named
    assert named <= set(parts)
    Draft202012Validator.check_schema(whole)


@pytest.mark.parametrize("path", [TEMPLATE, ROOT / "workflow/demo/workflow.yaml"])
def test_a_right_workflow_is_valid(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    assert list(Draft202012Validator(bundled()).iter_errors(document)) == []


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"analyis": {}}, "$"),
        ({"execution": {"pools": {"a": {"worker": 1}}}}, "$.execution.pools.a"),
        (
            {"analysis": {"stages": [{"id": "A", "op": "b", "execution": {"requires": "x"}}]}},
            "$.analysis.stages[0].execution",
        ),
    ],
)
def test_a_slip_is_found_in_both_halves(wrong: dict[str, object], place: str) -> None:
    errors = list(Draft202012Validator(bundled()).iter_errors(wrong))
    assert [error.json_path for error in errors] == [place]
