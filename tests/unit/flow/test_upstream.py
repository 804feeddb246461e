"""What fasthep-smk relies on in FAST-HEP: fails with a clear message when a release changes it."""

from __future__ import annotations

import importlib
import inspect
import re
from importlib import metadata
from pathlib import Path

import pytest

from fasthep_smk.flow import contract, release, upstream

PACKAGE = Path(__file__).parents[3] / "fasthep_smk"


def test_fasthep_is_as_the_contract_says() -> None:
    assert contract.differences() == []


def test_the_adapter_has_all_that_the_contract_lists() -> None:
    for name in (*contract.CALLS, *contract.METHODS):
        module, _, attribute = name.partition(":")
        there = getattr(importlib.import_module(module), attribute)
        assert getattr(upstream, attribute.removeprefix("_")) is there


def test_all_that_is_used_of_the_adapter_is_there() -> None:
    for path in PACKAGE.rglob("*.py"):
        for name in re.findall(r"\bupstream\.(\w+)", path.read_text()):
            assert hasattr(upstream, name), f"{path}: {name}"


def test_an_output_result_is_an_artifact_reference() -> None:
    result = upstream.OutputResult(kind="artifact", path="plot.png", partition_index=0)
    assert isinstance(result, upstream.ArtifactReference)
    assert (result.uri, result.product_kind, result.partition_index) == ("plot.png", "artifact", 0)


@pytest.mark.parametrize("package", sorted(release.TESTED))
def test_the_installed_release_is_the_tested_one(package: str) -> None:
    """If only this fails, release.TESTED can be set to the installed release."""
    assert metadata.version(package) == release.TESTED[package]


def test_how_git_is_asked_can_be_chosen() -> None:
    assert "runner" in inspect.signature(upstream.software_hook().git_state).parameters


def test_all_expressions_come_to_one_function() -> None:
    parser = upstream.expression_parser()
    assert parser.symbols_in_expr("a && b || f(c)") == {"a", "b", "c", "f"}
    assert "symbols_in_expr(" in inspect.getsource(parser.column_symbols_in_expr)
    assert "column_symbols_in_expr(" in inspect.getsource(parser.data_symbols_in_expr)
