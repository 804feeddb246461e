"""Why a column that a stage reads is taken for a branch of the input, as a hint."""

from __future__ import annotations

from collections.abc import Callable

from fasthep_smk.flow import upstream
from fasthep_smk.flow.reads import CATEGORY, is_published
from fasthep_smk.flow.upstream import ExecutionNode, ExecutionPlan

__all__ = ["why_missing"]


def why_missing(plan: ExecutionPlan) -> Callable[[str], str | None]:
    """Return what tells why a column is not made by a stage, if that can be told."""

    def why(column: str) -> str | None:
        flow = plan.data_flow or {}
        readers = list((flow.get("consumers") or {}).get(column, ()))
        origin = (flow.get("origins") or {}).get(column) or {}
        origins = [origin, *(origin.get("origins") or ())]
        makers = [str(one["node"]) for one in origins if one.get("kind") == "produced"]
        before = {name for reader in readers for name in _before(plan, reader)}
        late = [name for name in makers if name not in before]
        if late:
            return (
                f"stage {_stage(plan.get_node(late[0]))!r} makes such a column, but not before "
                f"{_stage(plan.get_node(readers[0]))!r} reads it"
                if readers
                else None
            )
        for name in before:
            node = plan.get_node(name)
            if _is_silent(plan, node):
                return (
                    f"stage {_stage(node)!r} ({node.impl}) runs before, but its spec does not say "
                    "which columns it provides"
                )
        return None

    return why


def _before(plan: ExecutionPlan, name: str) -> set[str]:
    """Return the nodes whose events a node gets."""
    found: set[str] = set()
    left = [name]
    while left:
        for ref in plan.get_node(left.pop()).inputs:
            if ref.node_id not in found and ref.input_name != "dependency":
                found.add(ref.node_id)
                left.append(ref.node_id)
    return found


def _stage(node: ExecutionNode) -> str:
    return str(dict(node.meta or {}).get("stage_id") or node.id)


def _is_silent(plan: ExecutionPlan, node: ExecutionNode) -> bool:
    """Whether an operation of the user's may make columns that its spec does not name."""
    if node.role != "transform" or is_published(plan.registry, CATEGORY["transform"], node.impl):
        return False
    spec = upstream.component_spec_for_node(node, plan.registry)
    return spec is not None and not spec.provides and not spec.dependency_parser
