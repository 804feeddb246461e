"""Findings about where results go: no file has two writers, no name leaves the build folder."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import normpath

from fasthep_smk.flow.graph import Node
from fasthep_smk.flow.workflow_checks import name_finding
from fasthep_smk.plan.partitions import Partition
from fasthep_smk.plan.rules import Variation
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.names import folder_problem

_TOKENS = ("{dataset}", "{part}", "{partition_id}")


def name_findings(variations: list[Variation], *, workflow: str) -> list[Finding]:
    """Return names that FAST-HEP would use as folders and that it must not.

    Most are found in the document already; here they are what the compiler made of them.
    """
    names = [("systematics.variations", item.name) for item in variations if item.name]
    for item in variations:
        names += [("data.datasets", name) for name in item.graph.plan.context.get("datasets") or {}]
    return [
        name_finding(name, problem, key=key, workflow=workflow)
        for key, name in dict.fromkeys(names)
        if (problem := folder_problem(name))
    ]


def output_findings(variation: Variation, *, workflow: str) -> list[Finding]:
    """Return writers and renders of which two datasets or partitions would write one file."""
    findings: list[Finding] = []
    for node in variation.graph.nodes.values():
        # How a user's own sink names its files from its parameters is its own affair.
        if node.role == "sink" and node.published:
            findings.extend(_sink_findings(node, variation, workflow))
    return [*findings, *_product_findings(variation, workflow)]


def shared_findings(variations: list[Variation], *, workflow: str) -> list[Finding]:
    """Return writers and renders of which several variations would write one file.

    Each variation has a folder of its own in the build folder, for relative paths.
    """
    owners: dict[tuple[str, str], dict[str, str]] = {}
    for item in variations:
        for node in item.graph.nodes.values():
            target = _target(node) if node.role == "sink" and node.published else None
            if target is not None and target[1].startswith("/"):
                key, path = target
                owners.setdefault((key, normpath(path)), {})[item.label] = node.stage
    return [
        Finding(
            file=workflow,
            key=f"analysis.stages[{next(iter(stages.values()))!r}]",
            problem=f"{len(stages)} variations ({', '.join([*stages][:4])}) would overwrite each "
            f"other's file, because '{key}' is an absolute path",
            value=path,
            expected="a relative path: each variation has its own folder in the build folder",
            hint="or run only one of the variations: --variation NAME",
        )
        for (key, path), stages in owners.items()
        if len(stages) > 1
    ]


def _product_findings(variation: Variation, workflow: str) -> Iterator[Finding]:
    """Find stages whose histogram, cutflow or other product FAST-HEP writes to one file."""
    owners: dict[tuple[str, str], list[str]] = {}
    for node in variation.graph.nodes.values():
        for kind in node.product_kinds:
            owners.setdefault((kind, node.product_id), []).append(node.stage)
    for (kind, name), stages in owners.items():
        if len(stages) > 1 and len(set(stages)) == 1:
            yield Finding(
                file=workflow,
                key=f"analysis.stages[{stages[0]!r}]",
                problem=f"makes {len(stages)} {kind} products that would share one file, {name!r}",
                expected=f"an operation that returns at most one {kind}",
                hint=f"make each {kind} in a stage of its own; let a parameter choose the {kind}",
            )
        elif len(stages) > 1:
            yield Finding(
                file=workflow,
                key="analysis.stages",
                problem=f"the {kind} products of these stages would share one file, {name!r}",
                value=", ".join(repr(stage) for stage in stages[:6]),
                expected="stage ids that differ in letters, digits, '_', '.' or '-'",
            )


def _sink_findings(node: Node, variation: Variation, workflow: str) -> Iterator[Finding]:
    places = [
        partition
        for partition in variation.partitions
        if variation.graph.active(node.id, variation.dataset(partition.dataset))
    ]
    datasets = list(dict.fromkeys(partition.dataset for partition in places))
    target = _target(node)
    if target is None:
        return
    key, template = target
    if normpath(f"artifacts/files/{template}").startswith(".."):
        yield Finding(
            file=workflow,
            key=f"{node.stage}: {key}",
            problem="would leave the build folder",
            value=template,
            expected="a path below the build folder, or an absolute one",
        )
        return
    shown = f"{node.stage}: {key}"
    if node.scope == "dataset" and len(datasets) > 1 and "{dataset}" not in template:
        yield Finding(
            file=workflow,
            key=shown,
            problem=f"{len(datasets)} datasets ({', '.join(datasets[:4])}) would overwrite each "
            "other's file",
            value=template,
            expected="{dataset} in the path"
            if key == "path"
            else "'applies_to' with one dataset, because a plot's file name cannot contain "
            "{dataset}",
            hint="or 'when: final' for one file of the whole run",
        )
    if node.scope == "partition" and _collides(node, key, template, places):
        yield Finding(
            file=workflow,
            key=shown,
            problem=f"{len(places)} partitions would overwrite each other's file",
            value=template,
            expected="{dataset} and {part} (or {partition_id}) in the path"
            if key == "path"
            else "'when: final', since plots of partitions share a file name",
        )


def _collides(node: Node, key: str, template: str, places: list[Partition]) -> bool:
    if key == "path" and not any(token in template for token in (*_TOKENS, "{node_id}")):
        return False  # FAST-HEP adds the dataset and the partition itself
    values = {
        normpath(
            template.replace("{dataset}", partition.dataset)
            .replace("{partition_id}", partition.id)
            .replace("{part}", partition.part)
            .replace("{node_id}", node.id)
        )
        for partition in places
    }
    return len(values) < len(places)


def _target(node: Node) -> tuple[str, str] | None:
    params: YamlMapping = node.params
    if isinstance(params.get("path"), str):
        return "path", str(params["path"])
    if "out" in params or isinstance(params.get("spec"), dict):
        spec = params.get("spec") or {}
        return "out", str(params.get("out") or spec.get("out") or node.stage)
    return None
