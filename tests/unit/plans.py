"""Small plans for the unit tests, written as FAST-HEP's compiler would."""

from __future__ import annotations

from typing import Any

from fasthep_smk.config.execution import read_execution
from fasthep_smk.config.routing import Router
from fasthep_smk.flow import plan_files
from fasthep_smk.flow.graph import Graph, describe

CARPENTER = "fasthep_carpenter.operations"
REGISTRY = {
    "sources": {
        "root_tree": {
            "spec": "fasthep_carpenter.sources.root_tree:ROOT_TREE_SOURCE_SPEC",
            "impl": "fasthep_carpenter.sources.root_tree:run_root_tree_source",
        }
    },
    "transforms": {
        "hep.define": {
            "spec": f"{CARPENTER}.define:DEFINE_SPEC",
            "impl": f"{CARPENTER}.define:run_define_transform",
        },
        "hep.hist": {
            "spec": f"{CARPENTER}.hist:HIST_SPEC",
            "impl": f"{CARPENTER}.hist:run_hist_transform",
        },
    },
    "observers": {
        "hep.schema_snapshot": {
            "spec": "fasthep_curator.observers.schema_snapshot:SCHEMA_SNAPSHOT_SPEC",
            "impl": "fasthep_curator.observers.schema_snapshot:run_schema_snapshot",
        }
    },
    "sinks": {
        "root_tree": {
            "spec": "fasthep_carpenter.sinks.root_tree:ROOT_TREE_WRITE_SPEC",
            "impl": "fasthep_carpenter.sinks.root_tree:run_root_tree_write",
        }
    },
    "product_handlers": {
        "histogram": {
            "boundary": {"retain": True, "representation": "value"},
            "combine": "fasthep_carpenter.products:combine_histogram_products",
            "merge": "fasthep_carpenter.products:merge_histogram_products",
        }
    },
}


def node(kind: str, name: str, source: str | None = None, **details: Any) -> dict[str, Any]:
    """Return a node: kind is source, define, hist, observer or writer."""
    shapes: dict[str, tuple[str, str, str, dict[str, str], str]] = {
        "source": ("read", "source", "root_tree", {"stream": "event_stream"}, "global"),
        "define": ("stage", "transform", "hep.define", {"stream": "event_stream"}, "partition"),
        "hist": ("stage", "transform", "hep.hist", {"hist": "histogram"}, "partition"),
        "observer": ("observe", "observer", "hep.schema_snapshot", {"report": "report"}, "global"),
        "writer": ("write", "sink", "root_tree", {"artifact": "artifact"}, "global"),
    }
    prefix, role, impl, outputs, scope = shapes[kind]
    meta: dict[str, Any] = {"stage_id": name}
    if role == "source":
        meta = {"source_name": name}
    for key in ("execution", "applies_to"):
        if key in details:
            meta[key] = details.pop(key)
    inputs = [{"node_id": source, "output_name": "stream", "input_name": "stream"}]
    return {
        "id": f"{prefix}.{name}",
        "role": role,
        "impl": impl,
        "inputs": inputs if source else [],
        "params": details,
        "outputs": outputs,
        "input_scope": scope,
        "output_scope": scope,
        "meta": meta,
    }


def router_for(*graphs: Graph) -> Router:
    """Return a router with a pool for every name that a stage asks for."""
    nodes = [item for one in graphs for item in one.nodes.values() if item.execution]
    stages = [{"id": item.stage, "execution": dict(item.execution)} for item in nodes]
    labels = {str(value) for item in nodes for value in item.execution.values()}
    pools: dict[str, Any] = {label: {"resources": {}} for label in sorted(labels)}
    document = {"execution": {"pools": pools}, "analysis": {"stages": stages}}
    found, problems = read_execution(document, {}, profile="local", workflow="workflow.yaml")
    assert found is not None, problems
    return found.router


def define(name: str, source: str, expr: str, **details: Any) -> dict[str, Any]:
    """Return a stage that makes one column."""
    return node("define", name, source, variables=[{"name": f"{name}_x", "expr": expr}], **details)


def histogram(name: str, source: str, column: str, **details: Any) -> dict[str, Any]:
    """Return a stage that fills one column."""
    axis = {"name": "x", "source": column, "type": "regular"}
    axis["bins"] = {"nbins": 2, "low": 0, "high": 1}  # type: ignore[assignment]
    return node("hist", name, source, axes=[axis], **details)


def graph(*nodes: dict[str, Any], datasets: dict[str, Any] | None = None) -> Graph:
    """Return the graph of a plan of these nodes."""
    context = {"datasets": datasets or {}, "dataset_names": list(datasets or {}), "globals": {}}
    document = {"nodes": list(nodes), "registry": REGISTRY, "context": context}
    return describe(plan_files.plan_from(document))
