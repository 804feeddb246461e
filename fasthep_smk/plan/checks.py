"""Findings about where results go: no file has two writers, no name leaves the build folder."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from posixpath import normpath

from fasthep_smk.flow.graph import Node
from fasthep_smk.flow.workflow_checks import name_finding
from fasthep_smk.plan.rules import Variation
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.names import folder_problem

#: What FAST-HEP replaces in a path.
_TOKENS = ("{dataset}", "{part}", "{partition_id}", "{node_id}")


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


def output_findings(variations: list[Variation], *, workflow: str) -> list[Finding]:
    """Return writers, renders and products that would write one file several times."""
    findings: list[Finding] = []
    #: The stages that write to an absolute path, by its key, itself, and variation: relative paths
    #: are in the folder of each variation.
    owners: dict[tuple[str, str], dict[str, str]] = {}
    for item in variations:
        for node in item.graph.nodes.values():
            # How a user's own sink names its files from its parameters is its own affair.
            target = _target(node) if node.role == "sink" and node.published else None
            if target is not None:
                findings += _sink_findings(node, *target, item, workflow)
                if target[1].startswith("/"):
                    at = (target[0], normpath(target[1]))
                    owners.setdefault(at, {})[item.label] = node.stage
        findings += _product_findings(item, workflow)
    return findings + [
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


def _product_findings(item: Variation, workflow: str) -> Iterator[Finding]:
    """Find stages whose histogram, cutflow or other product FAST-HEP writes to one file."""
    owners: dict[tuple[str, str], list[str]] = {}
    for node in item.graph.nodes.values():
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


def _sink_findings(
    node: Node, key: str, template: str, item: Variation, workflow: str
) -> Iterator[Finding]:
    """Yield that a file would be elsewhere, or one for several datasets or partitions."""
    wrong = partial(Finding, file=workflow, key=f"{node.stage}: {key}", value=template)
    if normpath(f"artifacts/files/{template}").startswith(".."):
        expected = "a path below the build folder, or an absolute one"
        yield wrong(problem="would leave the build folder", expected=expected)
        return
    places = [
        partition
        for partition in item.partitions
        if item.graph.active(node.id, item.dataset(partition.dataset))
    ]
    names, who = "{dataset} and {part} (or {partition_id})", f"{len(places)} partitions"
    filled = [part.named_in(template).replace("{node_id}", node.id) for part in places]
    if node.scope == "dataset":
        datasets = dict.fromkeys(partition.dataset for partition in places)
        names, who = "{dataset}", f"{len(datasets)} datasets ({', '.join([*datasets][:4])})"
        filled = [template.replace("{dataset}", name) for name in datasets]
    elif key == "path" and not any(token in template for token in _TOKENS):
        return  # FAST-HEP adds the dataset and the partition itself
    if node.scope != "final" and len(set(map(normpath, filled))) < len(filled):
        yield wrong(
            problem=f"{who} would overwrite each other's file",
            expected=f"{names} in the path"
            if key == "path"
            else f"'when: final', because a plot's file name cannot contain {names}",
            hint="or 'when: final' for one file of the whole run" if key == "path" else None,
        )


def _target(node: Node) -> tuple[str, str] | None:
    params: YamlMapping = node.params
    if isinstance(params.get("path"), str):
        return "path", str(params["path"])
    if "out" in params or isinstance(params.get("spec"), dict):
        spec = params.get("spec") or {}
        return "out", str(params.get("out") or spec.get("out") or node.stage)
    return None
