"""Findings about what a workflow names: ops, sinks, modifiers, hooks and their modules."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import io
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from fasthep_smk.config.schema import key_of
from fasthep_smk.flow import local_modules, op_identity, upstream
from fasthep_smk.flow.places import mapping, node_place
from fasthep_smk.flow.reads import is_diagnostic
from fasthep_smk.flow.stage_error import own_line
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, nearest, not_among
from fasthep_smk.util.yaml_values import as_yaml

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Plan, PlanNode, Registry

__all__ = ["plan_findings", "registry_findings", "unregistered_finding"]

#: How the names of FAST-HEP's own operations begin.
_OF_FASTHEP = ("hep.", "root_tree")

_CATEGORY = {
    "source": ("sources", "source"),
    "transform": ("transforms", "op"),
    "observer": ("observers", "observer"),
    "sink": ("sinks", "sink"),
}


def registry_findings(document: YamlMapping, *, workflow: str) -> list[Finding]:
    """Return the modules of the workflow's own registry that cannot be imported.

    Looked at before compiling: FAST-HEP's compiler imports some of them and does not say which
    one failed.
    """
    findings: dict[str, Finding] = {}
    registry = document.get("registry")
    for section, entries in (registry if isinstance(registry, dict) else {}).items():
        for name, entry in (entries if isinstance(entries, dict) else {}).items():
            parts = entry if isinstance(entry, dict) else {"": entry}
            for part, reference in parts.items():
                if part not in ("", "spec", "impl") or not isinstance(reference, str):
                    continue
                if ":" in reference and (problem := _load_problem(reference)):
                    finding = Finding(
                        file=workflow,
                        key=key_of("registry", filter(None, (str(section), str(name), part))),
                        value=as_yaml(reference),
                        problem=problem,
                        expected="module:object that can be imported",
                        hint=_hint(reference, problem),
                    )
                    # One module that cannot be imported is one finding, however often it is named.
                    findings.setdefault(f"{reference.partition(':')[0]} {problem}", finding)
    return list(findings.values())


def plan_findings(plan: Plan, *, workflow: str) -> list[Finding]:
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
                hint = _HINT if isinstance(error, ImportError) else None
                finding = _event_finding(plan, error, what, workflow) or Finding(
                    file=workflow, key=what, problem=problem, hint=hint
                )
                findings.setdefault(str(finding), finding)
    findings = _without_profile(plan, findings, workflow)
    for report in plan.reports:
        if report.get("source") != "provenance":
            finding = Finding(
                file=workflow,
                key=f"reports[{report.get('id')!r}].source",
                problem="is not a source of reports",
                value=as_yaml(report.get("source")),
                expected="provenance",
            )
            findings[str(finding)] = finding
        for finding in _component_findings(
            plan,
            "sinks",
            "op",
            str(report.get("op")),
            workflow,
            f"reports[{report.get('id')!r}].op",
        ):
            findings.setdefault(str(finding), finding)
    return list(findings.values())


def _without_profile(plan: Plan, findings: dict[str, Finding], workflow: str) -> dict[str, Finding]:
    """Return findings; where no profile registers FAST-HEP's operations, one for all of these."""
    lacking = {
        text: one
        for text, one in findings.items()
        if one.problem.endswith("of this name is registered")
        and (one.value or "").strip("'").startswith(_OF_FASTHEP)
    }
    names = [(one.value or "").strip("'") for one in lacking.values()]
    told = unregistered_finding(plan.registry, names, workflow=workflow)
    if told is None:
        return findings
    others = {text: one for text, one in findings.items() if text not in lacking}
    return {str(told): told, **others}


def unregistered_finding(
    registry: Registry, names: Iterable[str], *, workflow: str
) -> Finding | None:
    """Return that no profile registers FAST-HEP's own operations, if some of ``names`` are."""
    used = [one for one in dict.fromkeys(names) if one.startswith(_OF_FASTHEP)]
    if not used or "hep.define" in (registry.get("transforms") or {}):
        return None
    return Finding(
        file=workflow,
        key="use.profiles",
        problem="no profile registers the operations of FAST-HEP",
        value=", ".join(used),
        expected="profiles: [hep]",
        hint="write use: {profiles: [hep]} at the top of the workflow",
    )


#: What FAST-HEP loads before it runs anything: for which section, by what, from which part of
#: the plan (the plan itself if it has no name).
_LOADERS: tuple[tuple[str, Callable[..., object], tuple[str, ...]], ...] = (
    ("execution_hooks", upstream.HookManager.from_plan, ("",)),
    ("registry.product_handlers", upstream.runtime_registry_from_config, ("registry",)),
    ("registry.functions", upstream.expr_registry_from_config, ("registry",)),
)


def _event_finding(plan: Plan, error: Exception, key: str, workflow: str) -> Finding | None:
    """Return which event of a hook there is not, if that keeps it from being loaded."""
    for hook in plan.execution_hooks:
        hook = mapping(hook)
        kind = str(hook.get("kind"))
        for event in hook.get("events") or ():
            if str(error) == f"Hook {kind} does not support event {event}":
                return not_among(
                    event,
                    upstream.hook_spec_events(upstream.load_hook_spec(plan.registry, kind)),
                    problem=f"the hook {kind!r} is not called at this event",
                    file=workflow,
                    key=key,
                )
    return None


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

_HINT = (
    "install the package, or put the module beside the workflow, into the current folder or on "
    "PYTHONPATH"
)


def _hint(reference: object, problem: str) -> str | None:
    """Return what to do about a module, or about a name in it."""
    module, _, name = str(reference).partition(":")
    if module.endswith(".py"):
        return f"write {module.removesuffix('.py').replace('/', '.')}:{name}, without .py"
    if "has no attribute" in problem:
        known = vars(sys.modules[module]) if module in sys.modules else ()
        close = nearest(name, (one for one in known if one.isupper() == name.isupper()))
        return f"did you mean '{module}:{close}'?" if close else None
    if not problem.startswith(("the module", "there is no module")):
        return None
    return local_modules.why_not_found(str(reference).partition(":")[0]) or _HINT


def _node_findings(plan: Plan, node: PlanNode, workflow: str) -> Iterator[Finding]:
    category, word = _CATEGORY[node.role]
    where = node_place(node).removesuffix(".params")
    of_render = node.id.startswith("render.")
    key = f"{where}.{'op' if word == 'op' else 'style.op' if of_render else 'kind'}"
    yield from _component_findings(plan, category, word, node.impl, workflow, key)
    execution = dict(dict(node.meta or {}).get("execution") or {})
    for number, modifier in enumerate(execution.get("modifiers") or []):
        said = modifier if isinstance(modifier, dict) else {"name": modifier}
        place = f"{where}.execution.modifiers"
        unknown = [
            *_component_findings(
                plan,
                "execution_modifiers",
                "modifier",
                str(said.get("name")),
                workflow,
                place,
                needs_spec=False,
            )
        ]
        yield from unknown or _modifier_findings(plan, said, f"{place}[{number}]", workflow)


def _modifier_findings(
    plan: Plan, modifier: YamlMapping, key: str, workflow: str
) -> Iterator[Finding]:
    """Yield parameters that the class of a modifier does not take, or that it lacks."""
    name = str(modifier.get("name"))
    entry = (plan.registry.get("execution_modifiers") or {}).get(name)
    made = upstream.load_object(str(entry.get("impl"))) if isinstance(entry, dict) else None
    if not isinstance(made, type):  # it is called with none: they go into ctx
        return
    try:
        takes = dict(inspect.signature(made).parameters)
    except (TypeError, ValueError):
        return
    given = modifier.get("params")
    given = given if isinstance(given, dict) else {}
    if is_diagnostic(plan.registry, name) and (
        problem := made.problem(given.get("engine"))  # type: ignore[attr-defined]
    ):
        yield Finding(
            file=workflow,
            key=f"{key}.params.engine",
            value=as_yaml(given.get("engine")),
            problem=problem,
        )
    kinds = {one.kind for one in takes.values()}
    known = [one.name for one in takes.values() if one.kind in _BY_NAME]
    for param in given if inspect.Parameter.VAR_KEYWORD not in kinds else ():
        if param not in known:
            yield not_among(
                param,
                known or ["no parameters"],
                problem=f"{name} has no parameter of this name",
                file=workflow,
                key=f"{key}.params.{param}",
            )
    for one in takes.values():
        if one.kind in _BY_NAME and one.default is one.empty and one.name not in given:
            yield Finding(
                file=workflow,
                key=f"{key}.params.{one.name}",
                problem=f"is missing: {name} needs it",
                expected="a value",
            )


def _component_findings(
    plan: Plan,
    category: str,
    word: str,
    name: str,
    workflow: str,
    key: str,
    *,
    needs_spec: bool = True,
) -> Iterator[Finding]:
    registered = plan.registry.get(category) or {}
    entry = registered.get(name)
    if not isinstance(entry, dict):
        close = nearest(name, registered)
        yield Finding(
            file=workflow,
            key=key,
            problem=f"no {word} of this name is registered",
            value=as_yaml(name),
            expected=f"a registered name, such as {close!r}" if close else "a registered name",
            hint="write use: {profiles: [hep, 'fasthep_smk:registry']} at the top of the workflow"
            if name.startswith("smk.")
            else "registered by a profile (use.profiles) or by the workflow's registry section",
        )
        return
    parts = ("spec", "impl") if needs_spec else ("impl",)
    for part in parts:
        problem = _load_problem(entry.get(part))
        if problem:
            yield Finding(
                file=workflow,
                key=key_of("registry", (category, name, part)),
                value=as_yaml(entry.get(part)),
                problem=problem,
                expected="module:object that can be imported",
                hint=_hint(entry.get(part), problem),
            )


def _load_problem(reference: object) -> str | None:
    if not isinstance(reference, str) or ":" not in reference:
        return "is not of the form module:object"
    module = reference.partition(":")[0]
    try:
        if op_identity.is_published(module):
            # Loading all of FAST-HEP's renderers would cost half a second for nothing.
            return None if importlib.util.find_spec(module) else f"there is no module {module}"
        upstream.load_object(reference)
    except ModuleNotFoundError as error:
        return f"the module {error.name!r} cannot be imported: {error}"
    except (Exception, SystemExit) as error:
        # Importing a user's module runs the user's code: anything is possible.
        line = own_line(error)
        return f"cannot be imported: {type(error).__name__}: {error}" + (
            f" ({line})" if line else ""
        )
    return None
