"""Signatures: what decides whether a result still stands.

A node's signature covers the op's implementation, its compiled parameters and the signatures of
what it reads; a job's adds the identity of its partition and the part of the context that an op
can see. Formatting of the YAML, folders, pools and resources are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fasthep_smk.files import digest_of
from fasthep_smk.flow.graph import Graph, Node

__all__ = ["context_signature", "node_content", "static_signatures"]


def static_signatures(graph: Graph, variation: str | None) -> dict[str, str]:
    """Return the signature of every node, before any partition or dataset is known."""
    signatures: dict[str, str] = {}
    for node in graph.nodes.values():
        upstream = [[ref.name, ref.port, ref.node, signatures.get(ref.node)] for ref in node.inputs]
        content = node_content(node)
        # What writes below the variation's own folder, or may read its name, is never shared.
        own = variation if node.sees_variation else None
        signatures[node.id] = digest_of([content, upstream, own])
    return signatures


def node_content(node: Node) -> dict[str, Any]:
    """Return what a node does by itself, as plain data."""
    return {
        "id": node.id,
        "role": node.role,
        "impl": node.impl,
        "implementation": node.implementation,
        "params": node.params,
        "outputs": node.outputs,
        "modifiers": node.execution.get("modifiers"),
        "applies_to": node.meta.get("applies_to"),
    }


def context_signature(graph: Graph, dataset: Mapping[str, Any] | None) -> str:
    """Return the signature of the context that every op of a partition can see."""
    plan = graph.plan
    return digest_of(
        {
            "globals": plan.context.get("globals"),
            "dataset_names": plan.context.get("dataset_names"),
            "dataset": dataset,
            "hooks": plan.execution_hooks,
            "surroundings": graph.surroundings,
        }
    )
