"""What fasthep-smk relies on in FAST-HEP: fails with a clear message when a release changes it."""

from __future__ import annotations

import importlib
import inspect
from importlib import metadata

import pytest

from fasthep_smk.flow import contract, release, upstream

#: What the adapter calls by another name than FAST-HEP does, or makes of what it has.
RENAMED = {
    "ensure_expr_registry": "_ensure_expr_registry",
    "register_product_bindings": "_register_product_bindings",
    "sink_when": "_sink_when",
    "source_reads_metadata_only": "_source_should_read_metadata_only",
}
OURS = {
    "entries_hook",
    "expression_parser",
    "resolve_collection_expression",
    "software_hook",
    "evaluating_module",
    "evaluating_operation",
}


def test_fasthep_is_as_the_contract_says() -> None:
    assert contract.differences() == []


def test_every_name_of_the_adapter_is_in_the_contract() -> None:
    listed = {*contract.CALLS, *contract.FIELDS, *contract.METHODS}
    known = {name.partition(":")[2]: name for name in listed}
    for name in set(upstream.__all__) - OURS:
        module, _, attribute = known[RENAMED.get(name, name)].partition(":")
        assert getattr(upstream, name) is getattr(importlib.import_module(module), attribute)


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
