"""The only module that imports ``hepflow``.

Everything that fasthep-smk uses of FAST-HEP's compiler and runtime is named here, and
``tests/unit/flow/test_upstream.py`` checks each name and signature, so that a release which
changes one of them fails in one place with a clear message. Names with a leading underscore are
private upstream (its own Dask package imports them too): they are the price of running a part of
a plan.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from hepflow.backends.loaders import backend_build_directories
from hepflow.backends.model import BackendResult
from hepflow.build_layout import BuildPaths, ensure_build_layout, write_run_summary
from hepflow.model.data_flow import DependencyContext
from hepflow.model.io import ArtifactManifest, ArtifactReference, OutputResult
from hepflow.model.plan import (
    ExecutionNode,
    ExecutionPartition,
    ExecutionPlan,
    PartitionSpec,
    PlanInputRef,
)
from hepflow.model.plan_applicability import (
    inactive_inputs_behavior_for_node,
    node_applies_to_plan_dataset,
    resolve_active_input_ref,
)
from hepflow.model.products import OperationResult
from hepflow.progress import ProgressReporter
from hepflow.registry.defaults import (
    default_expr_registry_config,
    default_runtime_registry_config,
    merge_registry_config,
)
from hepflow.registry.loaders import (
    expr_registry_from_config,
    load_object,
    runtime_registry_from_config,
)
from hepflow.runtime.boundary import (
    extract_boundary_products,
    plan_partition_boundary,
    reduce_product_values,
)
from hepflow.runtime.engine import (
    _ensure_expr_registry,
    _register_product_bindings,
    _sink_when,
    _source_should_read_metadata_only,
    build_dataset_context,
    build_partition_context,
    eval_expr,
    execute_dataset_sinks,
    execute_final_nodes,
    execute_global_side_product_nodes,
    execute_plan_partition,
)
from hepflow.runtime.hooks.loaders import hook_spec_events, load_hook_spec
from hepflow.runtime.hooks.manager import HookManager
from hepflow.runtime.materialize import materialize_final_products, product_id
from hepflow.runtime.provenance import ensure_runtime_provenance
from hepflow.runtime.reports import run_workflow_reports
from hepflow.runtime.writer_manifests import write_writer_manifests

# FAST-HEP's compiler takes 0.15 s to import, which a job, that needs only the runtime, would pay.
_COMPILER = {
    "_node_output_claims": "hepflow.compiler.output_claims",
    "CompileContext": "hepflow.compiler.context",
    "clear_snapshot": "hepflow.compiler.snapshot",
    "compile_workflow_file": "hepflow.api",
    "component_spec_for_node": "hepflow.compiler.data_flow",
    "context_symbols_from_plan": "hepflow.compiler.data_flow",
    "expand_profile_names": "hepflow.compiler.profiles",
    "expression_registry_symbol_names": "hepflow.compiler.data_flow",
    "load_profile_config_with_provenance": "hepflow.compiler.profiles",
    "load_workflow_with_includes": "hepflow.compiler.includes",
    "normalize_global_execution": "hepflow.compiler.execution",
    "normalize_profile_names": "hepflow.compiler.profiles",
    "parse_component_data_dependencies": "hepflow.compiler.data_flow",
    "resolve_collection_expression": "fasthep_carpenter.operations.select_objects",
    "resolve_workflow_registry": "hepflow.compiler.registry_resolution",
    "validate_stage_execution_resource_references": "hepflow.compiler.execution",
}


def __getattr__(name: str) -> Any:
    if name in _COMPILER:
        return getattr(importlib.import_module(_COMPILER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def software_hook() -> ModuleType:
    """Return the module that notes, while a workflow is compiled, what software is there."""
    return importlib.import_module("hepflow.compiler.hooks.software")


def entries_hook() -> ModuleType:
    """Return the module that counts, while a workflow is compiled, the entries of its files."""
    return importlib.import_module("fasthep_curator.compile_hooks.root_tree_metadata")


def expression_parser() -> Any:
    """Return the module whose ``symbols_in_expr`` tells the names in every expression."""
    return importlib.import_module("hepflow.compiler.expr_symbols")


def evaluating_operation(impl: str) -> Any:
    """Return the module of an operation that calls ``eval_expr`` for its expressions."""
    return importlib.import_module(evaluating_module(impl))


def evaluating_module(impl: str) -> str:
    """Return the name of the module of one of FAST-HEP's operations on events."""
    name = impl.removeprefix("hep.").replace("selection.cutflow", "cutflow").replace(".", "_")
    return f"fasthep_carpenter.operations.{name}"


# Upstream's own private helpers under names that say what they do here.
ensure_expr_registry = _ensure_expr_registry
register_product_bindings = _register_product_bindings
sink_when = _sink_when
source_reads_metadata_only = _source_should_read_metadata_only

__all__ = [
    "ArtifactManifest",
    "ArtifactReference",
    "BackendResult",
    "BuildPaths",
    "CompileContext",
    "DependencyContext",
    "ExecutionNode",
    "ExecutionPartition",
    "ExecutionPlan",
    "HookManager",
    "OperationResult",
    "OutputResult",
    "PartitionSpec",
    "PlanInputRef",
    "ProgressReporter",
    "backend_build_directories",
    "build_dataset_context",
    "build_partition_context",
    "compile_workflow_file",
    "component_spec_for_node",
    "context_symbols_from_plan",
    "default_expr_registry_config",
    "default_runtime_registry_config",
    "ensure_build_layout",
    "ensure_expr_registry",
    "ensure_runtime_provenance",
    "eval_expr",
    "evaluating_module",
    "evaluating_operation",
    "execute_dataset_sinks",
    "execute_final_nodes",
    "execute_global_side_product_nodes",
    "execute_plan_partition",
    "expand_profile_names",
    "expr_registry_from_config",
    "expression_parser",
    "expression_registry_symbol_names",
    "extract_boundary_products",
    "hook_spec_events",
    "inactive_inputs_behavior_for_node",
    "load_hook_spec",
    "load_object",
    "load_profile_config_with_provenance",
    "load_workflow_with_includes",
    "materialize_final_products",
    "merge_registry_config",
    "node_applies_to_plan_dataset",
    "normalize_global_execution",
    "normalize_profile_names",
    "parse_component_data_dependencies",
    "plan_partition_boundary",
    "product_id",
    "reduce_product_values",
    "register_product_bindings",
    "resolve_active_input_ref",
    "resolve_collection_expression",
    "resolve_workflow_registry",
    "run_workflow_reports",
    "runtime_registry_from_config",
    "sink_when",
    "software_hook",
    "source_reads_metadata_only",
    "validate_stage_execution_resource_references",
    "write_run_summary",
    "write_writer_manifests",
]
