"""A compiled plan as a document: read from FAST-HEP's YAML once, handed to jobs as JSON.

``plan.yaml`` of 10,000 partitions takes FAST-HEP's own reader 4 s. The plan is read once with
libyaml's parser (same values, a tenth of the time); a job gets a JSON file with everything but
the partitions, which stand in the task tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fasthep_smk.flow import upstream
from fasthep_smk.flow.patches.quick_yaml import parse_written
from fasthep_smk.util import plain_values
from fasthep_smk.util.documents import JsonObject

if TYPE_CHECKING:
    from fasthep_smk.flow.records import PartitionData
    from fasthep_smk.flow.shapes import Plan, PlanNode, PlanPartition


def read_plan(path: Path) -> Plan:
    """Return the plan of a compiled ``plan.yaml``, as ``hepflow.api.load_plan_file`` would."""
    return plan_from(parse_written(path.read_bytes()) or {})


def plan_from(document: JsonObject) -> Plan:
    """Return the plan that a document (the content of ``plan.yaml``) describes."""
    nodes = [_node_from(item) for item in document.get("nodes") or ()]
    parts = {
        "nodes": nodes,
        "node_index": {node.id: node for node in nodes},
        "partitions": [partition_from(item) for item in document.get("partitions") or ()],
    }
    plan: Plan = _made(upstream.ExecutionPlan, {**document, **parts})
    return plan


def draws(plan: Plan) -> bool:
    """Whether a plan makes plots: what that needs takes a second to import."""
    sinks = plan.registry.get("sinks") or {}
    entries = [sinks.get(node.impl) for node in plan.nodes]
    return any(
        isinstance(item, dict) and str(item.get("impl", "")).startswith("fasthep_render.hist.")
        for item in entries
    )


def partition_from(item: PartitionData) -> PlanPartition:
    """Return the partition that a mapping describes (entries ``[start, stop)`` of one file)."""
    partition: PlanPartition = _made(upstream.ExecutionPartition, item)
    return partition


def slim_text(plan: Plan) -> str:
    """Return the plan without its partitions as JSON text, for jobs."""
    document = plan.to_dict()
    del document["partitions"]
    document.pop("data_flow", None)  # used when translating only
    return json.dumps(plain_values.to_plain(document), indent=1) + "\n"


def read_slim(path: Path, partitions: Iterable[PartitionData] = ()) -> Plan:
    """Return the plan of a job, with the given partitions."""
    text = path.read_text(encoding="utf-8")
    document = json.loads(text)
    plan = plan_from(plain_values.from_plain(document) if '"$"' in text else document)
    plan.partitions = [partition_from(item) for item in partitions]
    return plan


def subset(plan: Plan, node_ids: Iterable[str]) -> Plan:
    """Return ``plan`` reduced to some nodes.

    Only these are executed; the full index stays, since FAST-HEP looks up inactive upstream nodes
    there.
    """
    wanted = set(node_ids)
    nodes = [node for node in plan.nodes if node.id in wanted]
    return replace(plan, nodes=nodes, node_index=dict(plan.node_index))


def _node_from(item: JsonObject) -> PlanNode:
    parts = {
        "inputs": [_made(upstream.PlanInputRef, ref) for ref in item.get("inputs") or ()],
        "partitioning": _made(upstream.PartitionSpec, item.get("partitioning") or {}),
    }
    node: PlanNode = _made(upstream.ExecutionNode, {"graph_node_id": item["id"], **item, **parts})
    return node


def _made(kind: Any, item: Mapping[str, object]) -> Any:
    """Return one of FAST-HEP's objects with all fields that it has, also in a new release."""
    return kind(**{field.name: item[field.name] for field in fields(kind) if field.name in item})
