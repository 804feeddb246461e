"""Findings about expressions of objects that name what only other expressions know.

``hep.select_objects``, ``hep.build_pairs`` and their like evaluate ``pt > 20`` for the objects of a
collection. They take each name for a field of those, unless it is one of FAST-HEP's own functions:
global values, the dataset's, and what ``registry`` adds are known to the compiler, and not to them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from fasthep_smk.flow import upstream
from fasthep_smk.flow.patches.parsed_expressions import parsed_expressions
from fasthep_smk.flow.places import mapping, place_of, stages_by_id
from fasthep_smk.flow.reads import dependency_context, full_registry, is_published
from fasthep_smk.flow.syntax_hints import as_python
from fasthep_smk.flow.upstream import ExecutionNode, ExecutionPlan
from fasthep_smk.util.errors import Finding

__all__ = ["object_findings"]

#: How a spec says that an expression is one of objects.
_KINDS = ("relative_expr", "scoped_expr")


def object_findings(
    plan: ExecutionPlan, document: Mapping[str, object], *, workflow: str
) -> list[Finding]:
    """Return the expressions of objects with which each job would fail."""
    written = stages_by_id(document)
    values = mapping(plan.context.get("globals"))
    found: list[Finding] = []
    for node in plan.nodes:
        if node.role != "transform" or not is_published(plan.registry, "transforms", node.impl):
            continue
        stage = str(dict(node.meta or {}).get("stage_id") or node.id)
        key, content = written.get(stage, (f"analysis.stages[{stage!r}]", {}))
        for text, name in _unknown(plan, node):
            value = values.get(name)
            number = isinstance(value, int | float)
            found.append(
                Finding(
                    file=workflow,
                    key=place_of(f"{key}.params", content.get("params"), text),
                    problem=f"{node.impl} does not know {name!r} in an expression of objects",
                    value=text,
                    expected="fields of the objects, numbers, and functions of FAST-HEP's own: "
                    f"{', '.join(sorted(_functions()))}",
                    hint=f"write {value} for {name}"
                    if number
                    else "let a stage with op: hep.define make the column before",
                )
            )
    return found


def _functions() -> set[str]:
    """Return the functions that these operations know."""
    return set(upstream.default_expr_registry_config()["functions"])


def _unknown(plan: ExecutionPlan, node: ExecutionNode) -> Iterator[tuple[str, str]]:
    """Yield expressions, each with a name that the compiler knows and the operation does not."""
    spec = upstream.component_spec_for_node(node, plan.registry)
    rules = mapping(spec.requires).get("symbols") if spec is not None else None
    if not any(mapping(rule).get("kind") in _KINDS for rule in rules or ()):
        return
    context = dependency_context(plan, full_registry(plan))
    own = upstream.DependencyContext(
        known_functions=_functions(), known_constants=set(), context_symbols=set()
    )
    params = dict(node.params)
    try:
        with parsed_expressions() as texts:
            said = upstream.parse_component_data_dependencies(
                spec=spec, params=params, dep_ctx=context
            ).consumes
    except Exception:
        return  # the compiler raised already if this mattered
    try:
        wanted = upstream.parse_component_data_dependencies(
            spec=spec, params=params, dep_ctx=own
        ).consumes
        flow = mapping(plan.data_flow)
        known = {*mapping(flow.get("origins")), *mapping(flow.get("consumers"))}
        lacking = set(wanted) - set(said) - known
    except ValueError:
        lacking = None  # the operation refuses a name
    given = {*context.context_symbols, *context.known_constants, *context.known_functions}
    for text in dict.fromkeys(texts):
        tree = ast.parse(as_python(text), mode="eval")
        names = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name)}
        for name in sorted(names & (given - _functions())):
            if lacking is None or any(column.endswith(f"_{name}") for column in lacking):
                yield text, name
                break
