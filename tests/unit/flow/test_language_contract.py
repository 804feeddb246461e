"""The published schema of the language knows every key that FAST-HEP's packages read.

A release that reads another one fails here, with the name of the key. Which keys its compiler reads
is taken from its source: of each variable below, what is asked of it by name.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.config import schema
from fasthep_smk.flow import upstream

SCHEMA = schema.bundled()
COMPILER = "hepflow.compiler"
#: Module and variable of FAST-HEP's -> what part of a workflow it holds.
READERS = [
    ("normalize", "normalize_workflow", "doc", "workflow"),
    ("lower_graph", "*", "workflow", "workflow"),
    ("includes", "*", "local", "workflow"),
    ("execution", "*", "workflow", "workflow"),
    ("normalize", "normalize_use", "raw", "workflow/use"),
    ("execution", "*", "use_block", "workflow/use"),
    ("normalize", "normalize_data", "data", "workflow/data"),
    ("normalize", "normalize_datasets", "ds", "dataset"),
    ("normalize", "normalize_sources", "spec", "source"),
    ("lower_graph", "*", "source_cfg", "source"),
    ("normalize", "normalize_joins", "join", "join"),
    ("normalize", "normalize_joins", "item", "join/inputs"),
    ("normalize", "normalize_fields", "field", "workflow/fields/*"),
    ("normalize", "normalize_outputs", "spec", "workflow/outputs/*"),
    ("normalize", "normalize_reports", "item", "report"),
    ("normalize", "normalize_reports", "output", "report/outputs"),
    ("normalize", "normalize_systematics", "raw", "systematics"),
    ("normalize", "*", "variation", "variation"),
    ("systematics", "*", "raw_variation", "variation"),
    ("inline_variations", "*", "raw_variation", "variation"),
    ("normalize", "_normalize_systematic_applicability", "raw", "variation/applies_to"),
    ("normalize", "_normalize_systematic_weight", "raw", "variation/weight"),
    ("normalize", "normalize_registry", "raw", "registry"),
    ("normalize", "_normalize_analysis_execution", "analysis", "workflow/analysis"),
    ("normalize", "*", "stage", "stage"),
    ("lower_graph", "*", "stage", "stage"),
    ("lower_graph", "*", "render_cfg", "render"),
    ("lower_graph", "_expand_hist_variation_axis", "variations", "hep.hist/variations"),
    ("lower_graph", "_expand_hist_variation_axis", "axis", "axis"),
    ("lower_graph", "_render_axis_from_hist_axis", "axis", "axis"),
    ("execution", "normalize_global_execution", "raw", "execution"),
    ("execution", "normalize_stage_execution", "raw", "stage_execution"),
]
#: What the compiler keeps for itself in the same mappings.
ITS_OWN = {"_graph_node_id", "_meta_output_layout", "_meta_stage_id", "_meta_workflow_kind"}


def parts_of(part: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a part of the schema, and those that it is put together from."""
    if not isinstance(part, Mapping):
        return
    if "$ref" in part:
        yield from parts_of(SCHEMA["$defs"][part["$ref"].removeprefix("#/$defs/")])
    yield part
    for word in ("anyOf", "oneOf", "allOf"):
        for one in part.get(word, ()):
            yield from parts_of(one)
    for word in ("if", "then", "else", "items"):
        yield from parts_of(part.get(word))


def below(part: Any, step: str) -> list[Any]:
    """Return what stands at a key of a mapping; ``*`` is any."""
    found = []
    for one in parts_of(part):
        if step == "*":
            found.append(one.get("additionalProperties"))
            found += one.get("patternProperties", {}).values()
        elif step in one.get("properties", {}):
            found.append(one["properties"][step])
    return found


def keys_at(place: str) -> set[str]:
    name, *steps = place.split("/")
    parts: list[Any] = [SCHEMA["$defs"][name]]
    for step in steps:
        parts = [found for part in parts for found in below(part, step)]
    known = {key for part in parts for one in parts_of(part) for key in one.get("properties", {})}
    assert known, f"the schema has no {place}"
    return known


def reads(source: str, function: str, variable: str) -> set[str]:
    """Return the keys that functions ask a variable for."""
    found = set()
    for one in ast.walk(ast.parse(source)):
        if not isinstance(one, ast.FunctionDef) or function not in ("*", one.name):
            continue
        for node in ast.walk(one):
            key: ast.expr | None = None
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                holder = node.func.value
                key = node.args[0] if node.func.attr in ("get", "pop") and node.args else None
            elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
                holder, key = node.value, node.slice
            if (
                isinstance(key, ast.Constant)
                and isinstance(key.value, str)
                and isinstance(holder, ast.Name)
                and holder.id == variable
            ):
                found.add(key.value)
    return found


def source_of(module: str) -> str:
    spec = importlib.util.find_spec(f"{COMPILER}.{module}")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text()


@pytest.mark.parametrize(("module", "function", "variable", "place"), READERS)
def test_a_key_that_the_compiler_reads_is_known(
    module: str, function: str, variable: str, place: str
) -> None:
    read = reads(source_of(module), function, variable)
    assert read, f"{module} reads nothing of {variable} in {function}: look where it does now"
    assert read - ITS_OWN <= keys_at(place), place


def test_a_new_key_would_be_noticed() -> None:
    source = "def f(stage):\n    return stage.get('id'), stage['new_key']\n"
    assert reads(source, "*", "stage") - keys_at("stage") == {"new_key"}


def test_the_keys_of_hooks_are_known() -> None:
    read = reads(source_of("execution"), "_merge_execution_hook_layers", "hook")
    assert read <= keys_at("hooks")


def published() -> dict[str, str]:
    """The specs of the operations, sources, observers and sinks of FAST-HEP's packages."""
    found = {}
    for package in ("fasthep_carpenter", "fasthep_render", "fasthep_curator"):
        text = resources.files(package).joinpath("profiles/registry.yaml")
        registry = yaml.safe_load(text.read_text())["registry"] if text.is_file() else {}
        for section in ("transforms", "sinks", "sources"):
            found |= {name: one["spec"] for name, one in registry.get(section, {}).items()}
    return found


@pytest.mark.parametrize("op", sorted(set(published()) & set(SCHEMA["$defs"])))
def test_a_parameter_of_a_spec_is_known(op: str) -> None:
    spec = upstream.load_object(published()[op])
    assert set(spec.get("params") or ()) <= keys_at(op)


@pytest.mark.parametrize(
    ("place", "model"),
    [
        ("variation", "SystematicVariation"),
        ("variation/applies_to", "SystematicApplicability"),
        ("variation/weight", "SystematicWeightRule"),
        ("join", "ZipJoinSpec"),
        ("join/inputs", "JoinInputSpec"),
        ("workflow/fields/*", "FieldSpec"),
        ("source", "RootTreeSourceSpec"),
    ],
)
def test_a_field_of_a_model_is_known(place: str, model: str) -> None:
    from hepflow.model import workflow

    fields = set(getattr(workflow, model).__dataclass_fields__)
    assert fields <= keys_at(place)
