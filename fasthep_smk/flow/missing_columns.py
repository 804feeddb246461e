"""Columns that are read before they are made, or hidden, and why one is taken for a branch."""

from __future__ import annotations

import ast
import contextlib
import unicodedata
from collections.abc import Callable, Collection, Iterator

from fasthep_smk.config.schema import key_of
from fasthep_smk.flow import upstream
from fasthep_smk.flow.context_use import OF_CONTEXT
from fasthep_smk.flow.patches.parsed_expressions import parsed_expressions
from fasthep_smk.flow.places import mapping
from fasthep_smk.flow.reads import CATEGORY, dependency_context, full_registry, is_published
from fasthep_smk.flow.syntax_hints import as_python
from fasthep_smk.flow.upstream import ExecutionNode, ExecutionPlan
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.yaml_values import as_yaml

__all__ = ["columns_before", "early_findings", "hidden_findings", "why_missing"]


def early_findings(plan: ExecutionPlan, *, workflow: str) -> dict[str, Finding]:
    """Return columns that a ``hep.define`` reads before it makes them, with a finding for each.

    FAST-HEP's compiler takes them for made. They are right if the input has a branch of that name.
    """
    found: dict[str, Finding] = {}
    for node in plan.nodes:
        if node.impl == "hep.define" and is_published(plan.registry, "transforms", node.impl):
            others = [plan.get_node(name) for name in _before(plan, node.id)]
            if any(_is_silent(plan, other) for other in others):
                continue
            before = {name for other in others for name in _made(plan, other.id)}
            for column, finding in _early(plan, node, workflow):
                if column not in before:
                    found.setdefault(column, finding)
    return found


def hidden_findings(
    plan: ExecutionPlan, branches: Collection[str], *, workflow: str
) -> list[Finding]:
    """Return the globals that take the name of something else which the workflow reads.

    In an expression a global goes before a column and a function, and operations find it in their
    context beside what FAST-HEP puts there. ``branches`` are those of the input.
    """
    values = {str(name): value for name, value in mapping(plan.context.get("globals")).items()}
    columns = {*branches, *mapping(mapping(plan.data_flow).get("origins"))}
    found = dict.fromkeys({*plan.context, *OF_CONTEXT}, "is a name of FAST-HEP's own context")
    read, called = _read_but_for(plan, set(values)) if values else (set[str](), set[str]())
    found |= dict.fromkeys(called, "hides a function, which expressions call")
    found |= dict.fromkeys(read & columns, "hides a column, which expressions read")
    return [
        Finding(
            file=workflow,
            key=key_of("analysis.globals", [name]),
            problem=found[name],
            value=as_yaml(value),
            expected="a name of its own",
            hint="give it another name, also where its value is meant",
        )
        for name, value in values.items()
        if name in found
    ]


def _read_but_for(plan: ExecutionPlan, values: set[str]) -> tuple[set[str], set[str]]:
    """Return the columns that stages would read without these globals, and functions they call.

    A registered constant counts as a function.
    """
    registry = full_registry(plan)
    context = dependency_context(plan, registry)
    bare = upstream.DependencyContext(
        known_functions=context.known_functions,
        known_constants=context.known_constants,
        context_symbols=set(context.context_symbols) - values,
    )
    read, called = set[str](), set(context.known_constants)
    for node in plan.nodes:
        spec = None
        if is_published(plan.registry, CATEGORY[node.role], node.impl):
            spec = upstream.component_spec_for_node(node, registry)
        with contextlib.suppress(Exception), parsed_expressions() as texts:
            if spec is not None:  # what the compiler cannot read it has refused
                read |= set(
                    upstream.parse_component_data_dependencies(
                        spec=spec, params=dict(node.params), dep_ctx=bare
                    ).consumes
                )
            for part in (one for text in texts for one in ast.walk(ast.parse(as_python(text)))):
                if isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
                    called.add(part.func.id)
    return read, called & {*context.known_functions, *context.known_constants}


def _early(
    plan: ExecutionPlan, node: ExecutionNode, workflow: str
) -> Iterator[tuple[str, Finding]]:
    registry = full_registry(plan)
    spec = upstream.component_spec_for_node(node, registry)
    variables = node.params.get("variables")
    listed = [one for one in variables or () if isinstance(one, dict)]
    names = [str(one.get("name")) for one in listed]
    context = dependency_context(plan, registry)
    name = (plan.context.get("variation") or {}).get("name", "nominal")
    where = f" in variation {name!r}" if name != "nominal" else ""
    for number, variable in enumerate(listed):
        # What it makes itself would not be told.
        alone = {**variable, "name": "fasthep_smk_alone"}
        try:
            read = upstream.parse_component_data_dependencies(
                spec=spec, params={"variables": [alone]}, dep_ctx=context
            ).consumes
        except Exception:
            return  # the compiler raised already if this mattered
        for column in sorted(set(read) & (set(names[number:]) - set(names[:number]))):
            itself = column == names[number]
            yield (
                column,
                Finding(
                    file=workflow,
                    key=f"analysis.stages[{_stage(node)!r}].params.variables[{number}]",
                    problem=f"{names[number]!r} reads itself{where}"
                    if itself
                    else f"{names[number]!r} reads {column!r}, which is defined only below it"
                    f"{where}",
                    value=as_yaml(variable.get("expr", variable.get("reduce"))),
                    expected="branches of the input, and columns that are made before",
                    hint=None if itself else f"move the definition of {column!r} up",
                ),
            )


def _made(plan: ExecutionPlan, name: str) -> list[str]:
    produced = (plan.data_flow or {}).get("origins") or {}
    return [
        str(column)
        for column, origin in produced.items()
        for one in (origin, *(origin.get("origins") or ()))
        if one.get("kind") == "produced" and one.get("node") == name
    ]


def why_missing(plan: ExecutionPlan) -> Callable[[str], str | None]:
    """Return what tells why a column is not made by a stage, if that can be told."""

    def why(column: str) -> str | None:
        flow = plan.data_flow or {}
        readers = list((flow.get("consumers") or {}).get(column, ()))
        origin = (flow.get("origins") or {}).get(column) or {}
        origins = [origin, *(origin.get("origins") or ())]
        for made in flow.get("origins") or {}:
            if made != column and unicodedata.normalize("NFKC", str(made)) == column:
                return (
                    f"Python reads {made!r} ({_codes(made)}) in an expression as {column!r} "
                    f"({_codes(column)}): write the second everywhere, or another name"
                )
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


def _codes(name: str) -> str:
    return " ".join(f"U+{ord(character):04X}" for character in name if not character.isascii())


def columns_before(plan: ExecutionPlan, column: str) -> set[str]:
    """Return the columns that stages make before a column is read; of all stages if none does."""
    readers = (plan.data_flow or {}).get("consumers") or {}
    before = {
        name for reader in readers.get(column, ()) for name in (reader, *_before(plan, reader))
    }
    nodes = before or {node.id for node in plan.nodes}
    return {name for node in nodes for name in _made(plan, node)}


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
