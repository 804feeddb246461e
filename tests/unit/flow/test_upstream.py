"""What fasthep-smk relies on in FAST-HEP: fails with a clear message when a release changes it."""

from __future__ import annotations

import dataclasses
import inspect
from importlib import metadata

import pytest
from packaging.requirements import Requirement

from fasthep_smk.flow import upstream

#: Name in the adapter -> the parameters that are passed to it.
CALLS = {
    "BackendResult": ["backend", "strategy", "success", "outputs", "summary"],
    "BuildPaths": ["root", "variation"],
    "CompileContext": ["workflow_path", "project_root"],
    "DependencyContext": ["known_functions", "known_constants", "context_symbols"],
    "ProgressReporter": ["partitions"],
    "backend_build_directories": ["registry_cfg", "execution", "provenance"],
    "build_dataset_context": ["plan", "base_ctx", "dataset_name"],
    "build_partition_context": ["plan", "base_ctx", "partition"],
    "compile_workflow_file": ["workflow_path", "outdir", "chunk_size"],
    "component_spec_for_node": ["node", "registry"],
    "context_symbols_from_plan": ["plan", "registry_cfg"],
    "default_expr_registry_config": [],
    "default_runtime_registry_config": [],
    "ensure_build_layout": ["root", "variation", "backend_directories"],
    "ensure_expr_registry": ["ctx", "registry_cfg"],
    "ensure_runtime_provenance": ["ctx"],
    "execute_dataset_sinks": [
        "plan",
        "dataset_name",
        "dataset_value_store",
        "ctx",
        "registry_cfg",
        "hook_manager",
    ],
    "execute_final_nodes": ["plan", "value_store", "ctx", "registry_cfg", "hook_manager"],
    "execute_global_side_product_nodes": ["plan", "ctx", "registry_cfg", "hook_manager"],
    "execute_plan_partition": ["plan", "ctx", "registry_cfg", "initial_values", "hook_manager"],
    "expand_profile_names": ["names", "project_root", "entry_dir"],
    "expr_registry_from_config": ["cfg"],
    "expression_registry_symbol_names": ["registry_cfg"],
    "extract_boundary_products": [
        "plan",
        "value_store",
        "partition",
        "boundary",
        "runtime_registry",
        "ctx",
    ],
    "hook_spec_events": ["spec"],
    "inactive_inputs_behavior_for_node": ["plan", "node"],
    "load_hook_spec": ["registry_cfg", "kind"],
    "load_object": ["spec"],
    "load_profile_config_with_provenance": ["name", "project_root", "entry_dir"],
    "load_workflow_with_includes": ["root_path"],
    "materialize_final_products": ["plan", "value_store", "outdir", "registry_cfg"],
    "merge_registry_config": ["base", "override"],
    "node_applies_to_plan_dataset": ["node", "dataset"],
    "normalize_global_execution": ["raw"],
    "normalize_profile_names": ["raw"],
    "parse_component_data_dependencies": ["spec", "params", "dep_ctx"],
    "plan_partition_boundary": ["plan", "runtime_registry"],
    "product_id": ["node"],
    "reduce_product_values": ["plan", "runtime_registry", "key", "values", "dataset_name"],
    "register_product_bindings": ["ctx", "items"],
    "resolve_active_input_ref": ["plan", "ref", "dataset"],
    "resolve_workflow_registry": ["workflow", "context"],
    "run_workflow_reports": ["plan", "outdir", "summary"],
    "runtime_registry_from_config": ["cfg"],
    "sink_when": ["node"],
    "source_reads_metadata_only": ["plan", "node", "ctx"],
    "validate_stage_execution_resource_references": ["stages", "resources", "pools"],
    "write_run_summary": ["root", "summary", "variation_name"],
    "write_writer_manifests": ["plan", "stores", "outdir", "runtime_provenance"],
}

#: Data classes -> all their fields: a new one would be lost between jobs.
FIELDS = {
    "ArtifactManifest": "product_kind format producer_node output_name dataset_name parts metadata",
    "ArtifactReference": "uri product_kind format metadata provenance producer_node output_name "
    "dataset_name partition_id partition_index",
    "ExecutionNode": "id graph_node_id role impl inputs params outputs input_scope output_scope "
    "partitioning materialize meta",
    "ExecutionPartition": "id dataset file source part start stop",
    "ExecutionPlan": "nodes node_index partitions context registry provenance execution "
    "execution_hooks reports data_flow",
    "PartitionSpec": "mode chunk_size",
    "PlanInputRef": "node_id output_name input_name",
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_function_takes_what_it_is_given(name: str) -> None:
    found = list(inspect.signature(getattr(upstream, name)).parameters)
    missing = [item for item in CALLS[name] if item not in found]
    assert not missing, f"hepflow's {name} no longer takes {missing}; it takes {found}"


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_a_record_has_the_fields_we_carry(name: str) -> None:
    found = [item.name for item in dataclasses.fields(getattr(upstream, name))]
    assert found == FIELDS[name].split(), f"hepflow's {name} has other fields than we carry"


def test_every_name_of_the_adapter_is_checked_here() -> None:
    others = {"HookManager", "OutputResult", "expression_parser", "read_style", "software_hook"}
    covered = {*CALLS, *FIELDS, *others}
    assert set(upstream.__all__) == covered


@pytest.mark.parametrize(
    "method", ["from_plan", "has_event", "on_node_error", "run_end", "usage_summary"]
)
def test_the_hook_manager_has_the_methods_we_use(method: str) -> None:
    assert callable(getattr(upstream.HookManager, method, None)), f"HookManager.{method} is gone"


def test_an_output_result_is_an_artifact_reference() -> None:
    result = upstream.OutputResult(kind="artifact", path="plot.png", partition_index=0)
    assert isinstance(result, upstream.ArtifactReference)
    assert (result.uri, result.product_kind, result.partition_index) == ("plot.png", "artifact", 0)


@pytest.mark.parametrize("package", ["flow", "carpenter", "curator", "render"])
def test_the_installed_release_is_in_the_tested_range(package: str) -> None:
    name = f"fasthep-{package}"
    wanted = next(
        requirement
        for item in metadata.requires("fasthep-smk") or []
        if (requirement := Requirement(item)).name == name
    )
    assert wanted.specifier.contains(metadata.version(name), prereleases=True)


def test_how_git_is_asked_can_be_chosen() -> None:
    assert "runner" in inspect.signature(upstream.software_hook().git_state).parameters


def test_all_expressions_come_to_one_function() -> None:
    parser = upstream.expression_parser()
    assert parser.symbols_in_expr("a && b || f(c)") == {"a", "b", "c", "f"}
    assert "symbols_in_expr(" in inspect.getsource(parser.column_symbols_in_expr)
    assert "column_symbols_in_expr(" in inspect.getsource(parser.data_symbols_in_expr)


@pytest.mark.parametrize("name", ["hist1d", "data_mc", "heatmap2d", "project", "comparison"])
def test_a_renderer_can_be_asked_to_read_a_style(name: str) -> None:
    spec = f"fasthep_render.hist.{name}:{name.upper()}_RENDER_SPEC"
    op = f"hep.render.{name}"
    registry = {"sinks": {op: {"spec": spec}}}
    upstream.read_style(registry, op, {"op": op, "project": {"axis": "x"}})
    with pytest.raises(TypeError, match="unexpected keyword argument 'odd'"):
        upstream.read_style(registry, op, {"op": op, name: {"odd": 1}})
    with pytest.raises(ValueError, match="min < max"):
        upstream.read_style(
            registry, op, {"op": op, "axes": {"x": {"name": "x", "limits": [2, 1]}}}
        )
