"""Findings about a compiled plan that FAST-HEP itself would only meet while running."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fasthep_smk.errors import Finding, nearest
from fasthep_smk.flow import identity, upstream

__all__ = ["document_findings", "plan_findings"]

_CATEGORY = {
    "source": ("sources", "source"),
    "transform": ("transforms", "op"),
    "observer": ("observers", "observer"),
    "sink": ("sinks", "sink"),
}


def document_findings(document: Mapping[str, Any], *, workflow: str) -> list[Finding]:
    """Return what the compiler loses without a word: equal dataset names, a second port.

    ``document`` is the workflow with its includes merged.
    """
    return [
        *_duplicate_datasets(document, workflow),
        *_dropped_ports(document, workflow),
    ]


def plan_findings(plan: Any, *, workflow: str) -> list[Finding]:
    """Return ops, sinks, sources, observers, modifiers, hooks and reports that cannot be loaded."""
    findings: dict[str, Finding] = {}
    for node in plan.nodes:
        for finding in _node_findings(plan, node, workflow):
            findings.setdefault(str(finding), finding)
    with contextlib.redirect_stdout(io.StringIO()):
        for what, load, arguments in _LOADERS:
            try:
                load(*(getattr(plan, name) if name else plan for name in arguments))
            except Exception as error:
                # Whatever a user's hook or handler raises on loading, say it once and clearly.
                problem = f"cannot be loaded: {type(error).__name__}: {error}"
                finding = Finding(file=workflow, key=what, problem=problem, hint=_HINT)
                findings.setdefault(str(finding), finding)
    for report in plan.reports:
        if report.get("source") != "provenance":
            finding = Finding(
                file=workflow,
                key=f"reports[{report.get('id')!r}].source",
                problem="is not a source of reports",
                value=repr(report.get("source")),
                expected="provenance",
            )
            findings[str(finding)] = finding
        for finding in _component_findings(
            plan, "sinks", "op", str(report.get("op")), workflow, f"reports[{report.get('id')!r}]"
        ):
            findings.setdefault(str(finding), finding)
    return list(findings.values())


#: What FAST-HEP loads before it runs anything: for which section, by what, from which part of
#: the plan (the plan itself if it has no name).
_LOADERS: tuple[tuple[str, Callable[..., Any], tuple[str, ...]], ...] = (
    ("execution_hooks", upstream.HookManager.from_plan, ("",)),
    ("registry.product_handlers", upstream.runtime_registry_from_config, ("registry",)),
    ("registry.functions", upstream.expr_registry_from_config, ("registry",)),
)

_HINT = (
    "install the package, or put the module beside the workflow, into the current folder or on "
    "PYTHONPATH"
)


def _node_findings(plan: Any, node: Any, workflow: str) -> Iterator[Finding]:
    category, word = _CATEGORY[node.role]
    where = str(dict(node.meta or {}).get("stage_id") or node.id)
    yield from _component_findings(plan, category, word, node.impl, workflow, where)
    execution = dict(dict(node.meta or {}).get("execution") or {})
    for modifier in execution.get("modifiers") or []:
        name = str(modifier.get("name") if isinstance(modifier, dict) else modifier)
        yield from _component_findings(
            plan, "execution_modifiers", "modifier", name, workflow, where, needs_spec=False
        )


def _component_findings(
    plan: Any,
    category: str,
    word: str,
    name: str,
    workflow: str,
    where: str,
    *,
    needs_spec: bool = True,
) -> Iterator[Finding]:
    registered = plan.registry.get(category) or {}
    entry = registered.get(name)
    key = f"{where}: {word}"
    if not isinstance(entry, dict):
        close = nearest(name, registered)
        yield Finding(
            file=workflow,
            key=key,
            problem=f"no {word} of this name is registered",
            value=repr(name),
            expected=f"a registered name, such as {close!r}" if close else "a registered name",
            hint="registered by a profile (use.profiles) or by the workflow's registry section",
        )
        return
    parts = ("spec", "impl") if needs_spec else ("impl",)
    for part in parts:
        problem = _load_problem(entry.get(part))
        if problem:
            yield Finding(
                file=workflow,
                key=f"registry.{category}.{name}.{part}",
                value=repr(entry.get(part)),
                problem=problem,
                expected="module:object that can be imported",
                hint=_HINT,
            )


def _load_problem(reference: Any) -> str | None:
    if not isinstance(reference, str) or ":" not in reference:
        return "is not of the form module:object"
    module = reference.partition(":")[0]
    try:
        if identity.is_published(module):
            # Loading all of FAST-HEP's renderers would cost half a second for nothing.
            return None if importlib.util.find_spec(module) else f"there is no module {module}"
        upstream.load_object(reference)
    except Exception as error:
        # Importing a user's module runs the user's code: any exception is possible.
        return f"cannot be imported: {type(error).__name__}: {error}"
    return None


def _duplicate_datasets(document: Mapping[str, Any], workflow: str) -> Iterator[Finding]:
    data = document.get("data")
    listed: list[Any] = []
    for block in (
        document.get("datasets"),
        data.get("datasets") if isinstance(data, dict) else None,
    ):
        if isinstance(block, list):
            listed.extend(item.get("name") for item in block if isinstance(item, dict))
        elif isinstance(block, dict):
            listed.extend(block)
    seen: set[str] = set()
    for name in map(str, listed):
        if name in seen:
            yield Finding(
                file=workflow,
                key="data.datasets",
                problem="two datasets have the same name: the files of one would be lost",
                value=repr(name),
                expected="a name for each dataset; one dataset may list several files",
            )
        seen.add(name)


def _dropped_ports(document: Mapping[str, Any], workflow: str) -> Iterator[Finding]:
    analysis = document.get("analysis")
    stages = analysis.get("stages") if isinstance(analysis, dict) else None
    for stage in stages if isinstance(stages, list) else []:
        if not isinstance(stage, dict):
            continue
        raw = stage.get("from", stage.get("in"))
        listed = [item for item in raw if isinstance(item, dict)] if isinstance(raw, list) else []
        ports: dict[str, list[str]] = {}
        for item in listed:
            ports.setdefault(str(item.get("node")), []).append(str(item.get("port", "stream")))
        for node, names in ports.items():
            if len(names) > 1:
                yield Finding(
                    file=workflow,
                    key=f"analysis.stages[{stage.get('id')!r}].from",
                    problem=f"takes {len(names)} inputs from {node!r}: FAST-HEP keeps one of them "
                    "and drops the others",
                    value=", ".join(names),
                    expected="at most one port of each stage",
                    hint="let a stage in between pass the second port on",
                )
