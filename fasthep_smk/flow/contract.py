"""What we use of FAST-HEP, by name, and what of it the installed release has no more.

A release that we were not tested with is held against this (see ``release``).
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Iterator, Mapping

#: What is called, and the parameters that it is given.
CALLS: Mapping[str, str] = {
    "fasthep_carpenter.operations.select_objects:resolve_collection_expression": (
        "expression collection"
    ),
    "hepflow.api:compile_workflow_file": "workflow_path outdir chunk_size",
    "hepflow.backends.loaders:backend_build_directories": "registry_cfg execution provenance",
    "hepflow.backends.model:BackendResult": "backend strategy success outputs summary",
    "hepflow.build_layout:BuildPaths": "root variation",
    "hepflow.build_layout:ensure_build_layout": "root variation backend_directories",
    "hepflow.build_layout:write_run_summary": "root summary variation_name",
    "hepflow.compiler.context:CompileContext": "workflow_path project_root",
    "hepflow.compiler.data_flow:component_spec_for_node": "node registry",
    "hepflow.compiler.data_flow:context_symbols_from_plan": "plan registry_cfg",
    "hepflow.compiler.data_flow:expression_registry_symbol_names": "registry_cfg",
    "hepflow.compiler.data_flow:parse_component_data_dependencies": "spec params dep_ctx",
    "hepflow.compiler.execution:normalize_global_execution": "raw",
    "hepflow.compiler.execution:validate_stage_execution_resource_references": (
        "stages resources pools"
    ),
    "hepflow.compiler.includes:load_workflow_with_includes": "root_path",
    "hepflow.compiler.profiles:expand_profile_names": "names project_root entry_dir",
    "hepflow.compiler.profiles:load_profile_config_with_provenance": "name project_root entry_dir",
    "hepflow.compiler.profiles:normalize_profile_names": "raw",
    "hepflow.compiler.registry_resolution:resolve_workflow_registry": "workflow context",
    "hepflow.compiler.snapshot:clear_snapshot": "compile_dir",
    "hepflow.model.data_flow:DependencyContext": "known_functions known_constants context_symbols",
    "hepflow.model.plan:PlanInputRef": "node_id output_name input_name",
    "hepflow.model.plan_applicability:inactive_inputs_behavior_for_node": "plan node",
    "hepflow.model.plan_applicability:node_applies_to_plan_dataset": "node dataset",
    "hepflow.model.plan_applicability:resolve_active_input_ref": "plan ref dataset",
    "hepflow.progress:ProgressReporter": "partitions",
    "hepflow.registry.defaults:default_expr_registry_config": "",
    "hepflow.registry.defaults:default_runtime_registry_config": "",
    "hepflow.registry.defaults:merge_registry_config": "base override",
    "hepflow.registry.loaders:expr_registry_from_config": "cfg",
    "hepflow.registry.loaders:load_object": "spec",
    "hepflow.registry.loaders:runtime_registry_from_config": "cfg",
    "hepflow.runtime.boundary:extract_boundary_products": (
        "plan value_store partition boundary runtime_registry ctx"
    ),
    "hepflow.runtime.boundary:plan_partition_boundary": "plan runtime_registry",
    "hepflow.runtime.boundary:reduce_product_values": (
        "plan runtime_registry key values dataset_name"
    ),
    "hepflow.runtime.engine:_ensure_expr_registry": "ctx registry_cfg",
    "hepflow.runtime.engine:_register_product_bindings": "ctx items",
    "hepflow.runtime.engine:_sink_when": "node",
    "hepflow.runtime.engine:_source_should_read_metadata_only": "plan node ctx",
    "hepflow.runtime.engine:build_dataset_context": "plan base_ctx dataset_name",
    "hepflow.runtime.engine:build_partition_context": "plan base_ctx partition",
    "hepflow.runtime.engine:eval_expr": "events expr ctx",
    "hepflow.runtime.engine:execute_dataset_sinks": (
        "plan dataset_name dataset_value_store ctx registry_cfg hook_manager"
    ),
    "hepflow.runtime.engine:execute_final_nodes": "plan value_store ctx registry_cfg hook_manager",
    "hepflow.runtime.engine:execute_global_side_product_nodes": (
        "plan ctx registry_cfg hook_manager"
    ),
    "hepflow.runtime.engine:execute_plan_partition": (
        "plan ctx registry_cfg initial_values hook_manager"
    ),
    "hepflow.runtime.materialize:materialize_final_products": (
        "plan value_store outdir registry_cfg"
    ),
    "hepflow.runtime.materialize:product_id": "node",
    "hepflow.runtime.provenance:ensure_runtime_provenance": "ctx",
    "hepflow.runtime.reports:run_workflow_reports": "plan outdir summary",
    "hepflow.runtime.writer_manifests:write_writer_manifests": (
        "plan stores outdir runtime_provenance"
    ),
}

#: Methods of classes, and functions of which only the name is used here.
METHODS: Mapping[str, str] = {
    "hepflow.model.io:ArtifactManifest": "",
    "hepflow.model.io:ArtifactReference": "",
    "hepflow.model.io:OutputResult": "",
    "hepflow.model.plan:ExecutionNode": "",
    "hepflow.model.plan:ExecutionPartition": "",
    "hepflow.model.plan:ExecutionPlan": "add_node get_node to_dict",
    "hepflow.model.plan:PartitionSpec": "",
    "hepflow.model.products:OperationResult": "",
    "hepflow.runtime.hooks.manager:HookManager": (
        "around_node from_plan has_event on_node_error run_end usage_summary"
    ),
    "hepflow.compiler.output_claims:_node_output_claims": "",
    "hepflow.compiler.expr_symbols:symbols_in_expr": "",
    "hepflow.compiler.hooks.software:git_state": "",
    "fasthep_render.render_types:RenderCommonSpec": "from_dict",
    "fasthep_toolbench.command:CommandResult": "",
}


def differences() -> list[str]:
    """Return what is not as it was in the release that we were tested with, in words."""
    changes = [
        *(text for name in CALLS for text in _call(name)),
        *(text for name in METHODS for text in _methods(name)),
    ]
    return list(dict.fromkeys(changes))  # many modules may lack the same one


def _call(name: str) -> Iterator[str]:
    """Yield what of a function or class is no longer given as we give it."""
    wanted = CALLS[name].split()
    thing, gone = _thing(name)
    if gone:
        yield gone
        return
    try:
        parameters = inspect.signature(thing).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        yield f"{_shown(name)} can no longer be called"
        return
    kinds = {arg.kind for arg in parameters.values()}
    if inspect.Parameter.VAR_KEYWORD not in kinds and (
        missing := [word for word in wanted if word not in parameters]
    ):
        yield f"{_shown(name)} no longer takes {_words(missing)}; it takes {_words(parameters)}"
    needed = [
        arg.name
        for arg in parameters.values()
        if arg.default is arg.empty and arg.kind not in (arg.VAR_KEYWORD, arg.VAR_POSITIONAL)
    ]
    if more := [word for word in needed if word not in wanted]:
        yield f"{_shown(name)} needs {_words(more)}, too"


def _methods(name: str) -> Iterator[str]:
    thing, gone = _thing(name)
    if gone:
        yield gone
    elif missing := [
        method for method in METHODS[name].split() if not callable(getattr(thing, method, 0))
    ]:
        yield f"{_shown(name)} no longer has {_words(missing)}"


def _thing(name: str) -> tuple[object, str]:
    """Return what has a name, and otherwise why there is none."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute), ""
    except ModuleNotFoundError as error:
        return None, f"there is no module {error.name}"
    except ImportError as error:
        return None, f"one of its modules cannot be imported: {' '.join(str(error).split())}"
    except AttributeError:
        return None, f"{_shown(name)} is gone"


def _words(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "nothing"


def _shown(name: str) -> str:
    return name.replace(":", ".")
