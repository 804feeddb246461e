"""Which columns each node of a plan reads and makes, as FAST-HEP's own data flow has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fasthep_smk.flow import op_identity, upstream

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import ComponentSpec, DependencyContext, Plan, PlanNode, Registry

#: A node's role -> the section of the registry that its operation stands in.
CATEGORY = {
    "source": "sources",
    "transform": "transforms",
    "observer": "observers",
    "sink": "sinks",
}

#: Whose execution modifiers measure a stage, and change no result.
_MEASURING = "fasthep_smk.contrib.measure.modifiers"

#: What a node may read or write (``None``: everything), and what it makes.
_Columns = tuple[frozenset[str] | None, frozenset[str]]


def full_registry(plan: Plan) -> Registry:
    """Return what is registered: FAST-HEP's defaults, and what the plan adds."""
    registry: Registry = upstream.merge_registry_config(
        {
            **upstream.default_expr_registry_config(),
            **upstream.default_runtime_registry_config(),
        },
        plan.registry or {},
    )
    return registry


def dependency_context(plan: Plan, registry: Registry) -> DependencyContext:
    """Return what FAST-HEP must know to tell the columns in an expression from other names."""
    functions, constants = upstream.expression_registry_symbol_names(registry)
    context: DependencyContext = upstream.DependencyContext(
        known_functions=functions,
        known_constants=constants,
        context_symbols=upstream.context_symbols_from_plan(plan, registry),
    )
    return context


def columns_read(plan: Plan) -> dict[str, _Columns]:
    """Return which columns each node reads and makes, as FAST-HEP's own data flow has it."""
    registry = full_registry(plan)
    context = dependency_context(plan, registry)
    if user_hooks(plan, registry):
        return {node.id: (None, frozenset()) for node in plan.nodes}
    return {node.id: _reads(plan, node, registry, context) for node in plan.nodes}


def user_hooks(plan: Plan, registry: Registry) -> bool:
    """Whether the plan has a user's own hook: it is handed all that nodes read, and more."""
    return any(not is_published(registry, "hooks", kind) for kind in _hooks(plan))


def _hooks(plan: Plan) -> list[str]:
    return [str(hook.get("kind")) for hook in plan.execution_hooks if isinstance(hook, dict)]


def hook_entries(plan: Plan) -> list[object]:
    """Return what the hooks of a plan are registered with."""
    return [(plan.registry.get("hooks") or {}).get(kind) for kind in _hooks(plan)]


def entries_of(plan: Plan, item: PlanNode) -> list[object]:
    """Return what a node's operation is registered with, and its modifiers."""
    modifiers = plan.registry.get("execution_modifiers") or {}
    operation = (plan.registry.get(CATEGORY[item.role]) or {}).get(item.impl)
    return [operation, *map(modifiers.get, modifiers_of(item, plan.registry))]


def _reads(plan: Plan, node: PlanNode, registry: Registry, context: object) -> _Columns:
    everything: _Columns = (None, frozenset())
    if node.role not in ("transform", "sink"):
        return everything
    streams = [
        ref
        for ref in node.inputs
        if ref.input_name != "dependency"
        and plan.get_node(ref.node_id).outputs.get(ref.output_name) == "event_stream"
    ]
    if len(streams) > 1:
        return everything  # a join or merge renames and compares columns
    if modifiers_of(node, registry) or not is_published(registry, CATEGORY[node.role], node.impl):
        # A user's op may use more than it declares; FAST-HEP never holds it to its word.
        return everything
    spec: ComponentSpec | None = upstream.component_spec_for_node(node, registry)
    if spec is None or not (spec.requires or spec.dependency_parser):
        return everything  # nothing is declared: everything may be read
    behaviour = (spec.result or {}).get("field_propagation") if spec.result else None
    if behaviour not in (None, "ordinary"):
        return everything
    try:
        dependencies = upstream.parse_component_data_dependencies(
            spec=spec, params=dict(node.params), dep_ctx=context
        )
    except Exception:
        # The compiler raised already if this mattered; not knowing means all columns.
        return everything
    if node.role == "sink" and not dependencies.consumes:
        return everything  # a writer without ``keep`` writes every column
    makes = frozenset(dependencies.produces)
    return frozenset(dependencies.consumes) | makes, makes


def is_diagnostic(registry: Registry, name: str) -> bool:
    """Whether an execution modifier of this name is one of ours, which measure a stage."""
    reference = op_identity.impl_of(registry, "execution_modifiers", name)
    return reference.startswith(f"{_MEASURING}:")


def modifiers_of(item: PlanNode, registry: Registry) -> list[str]:
    """Return the modifiers of a node that may change what it computes: not those that measure."""
    return [name for name in _named(item) if not is_diagnostic(registry, name)]


def diagnostics_of(item: PlanNode, registry: Registry) -> list[str]:
    """Return the modifiers of a node that measure it, and change nothing."""
    return [name for name in _named(item) if is_diagnostic(registry, name)]


def _named(item: PlanNode) -> list[str]:
    execution = dict(dict(item.meta or {}).get("execution") or {})
    return [
        str(modifier.get("name") if isinstance(modifier, dict) else modifier)
        for modifier in execution.get("modifiers") or []
    ]


def is_published(registry: Registry, category: str, name: str) -> bool:
    return op_identity.is_published(op_identity.impl_of(registry, category, name).partition(":")[0])


def references(plan: Plan, item: PlanNode, category: str) -> tuple[str, list[str]]:
    """Return the ``module:object`` of a node's operation and of its modifiers."""
    registry = plan.registry
    named = modifiers_of(item, registry)
    modifiers = [op_identity.impl_of(registry, "execution_modifiers", name) for name in named]
    return op_identity.impl_of(registry, category, item.impl), modifiers
