"""Findings about parameters that no operation reads.

FAST-HEP hands an operation all parameters of its stage. One that its implementation has no name for
is a mistake: it ends each job with a TypeError, or is swallowed by ``**_``. What an implementation
reads is taken from its source, so that nothing is imported for it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from fasthep_smk.flow import op_identity, upstream
from fasthep_smk.flow.places import node_place
from fasthep_smk.flow.reads import CATEGORY, is_published, modifiers_of, user_hooks
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, is_slip, nearest, not_among

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Plan, PlanNode

__all__ = ["parameter_findings"]

#: What FAST-HEP's compiler and engine add to the parameters, or read of them themselves.
_FROM_FASTHEP = frozenset(
    (
        *("branches", "branches_by_dataset", "datasets", "defaults", "fields"),
        *("node_id", "out", "stream_id", "stream_type", "when"),
    )
)
#: What a writer gets of the entry of ``outputs`` that it uses.
_OF_OUTPUTS = ("use", "tree", "keep")
#: What FAST-HEP hands an operation besides its parameters.
_HANDED = frozenset(("stream", "target", "ctx"))
#: Parameters that FAST-HEP's compiler or engine always gives.
_GIVEN = frozenset(("datasets", "spec", "when", "branches_by_dataset", "metadata_only"))
_PARAMS = re.compile(r"params\.([A-Za-z_][A-Za-z0-9_]*)")
#: Renderers take all that a style may hold: the schema of the language knows it.
_RENDERERS = "hep.render."


def parameter_findings(plan: Plan, document: YamlMapping, *, workflow: str) -> list[Finding]:
    """Return the parameters of a compiled plan that their operations do not read.

    The compiler adds some of its own: only names that the workflow, ``document``, says are told.
    """
    found: list[Finding] = []
    said = _keys(document)
    for node in plan.nodes:
        # The patch of an inline variation may speak of what only the operation's users know.
        if "@" not in node.id and not str(node.impl).startswith(_RENDERERS):
            found += _of_node(plan, node, said, workflow)
    return found


def _keys(document: object) -> set[str]:
    """Return all keys of a document, wherever they are."""
    found: set[str] = set()
    left, seen = [document], set()
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, dict):
            found.update(map(str, one))
            left += one.values()
        elif isinstance(one, list):
            left += one
    return found


def _of_node(plan: Plan, node: PlanNode, said: set[str], workflow: str) -> Iterator[Finding]:
    entry = (plan.registry.get(CATEGORY[node.role]) or {}).get(node.impl)
    spec = _spec(entry)
    if spec is None:
        return
    params = spec.get("params")
    listed: YamlMapping = params if isinstance(params, dict) else {}
    if spec.get("dependency_parser"):  # it may read any
        yield from _slips(node, listed, workflow)
        return
    declared = set(listed) | _read_by_compiler(spec)
    if node.role != "sink":  # of writers, FAST-HEP asks for nothing
        yield from _missing(node, listed, workflow)
    if node.role == "observer" and is_published(plan.registry, "observers", node.impl):
        yield from _not_allowed(node, listed, workflow)
    odd = [name for name in node.params if name in said - declared - _FROM_FASTHEP]
    observed = node.role == "observer" and "node_id" not in declared | said
    own = not is_published(plan.registry, CATEGORY[node.role], node.impl)
    wanted = odd or observed or own or _takes_inputs(node)
    known = _named_by(str(entry.get("impl"))) if wanted and isinstance(entry, dict) else None
    if known is None:
        return
    yield from _of_inputs(plan, node, known, set(listed), workflow)
    if own:
        given = (said & set(listed)) - _FROM_FASTHEP
        yield from _of_function(node, known, given, listed, workflow)
    if observed and "node_id" in node.params and not (known.takes_rest or "node_id" in known.names):
        yield Finding(
            file=workflow,
            key=node_place(node),
            problem=f"{node.impl} does not take the name of what it observes, which each of "
            "the observers at the top gets",
            expected="inspect: below the stage",
        )
    for name in odd:
        if name in known.names - _HANDED:
            continue
        if known.takes_rest and (name.startswith("x-") or name in ("comment", "description")):
            continue
        if node.role == "sink" and name in _OF_OUTPUTS and known.takes_rest:
            continue
        read = known.names - _HANDED
        close = nearest(name, read | declared, cutoff=0.7)
        yield Finding(
            file=workflow,
            key=f"{node_place(node)}.{name}",
            problem=f"{node.impl} has no parameter of this name",
            expected=", ".join(sorted((declared or read) - _GIVEN)) or "no parameters",
            hint=f"did you mean {close!r}?" if close else None,
        )


def _slips(node: PlanNode, listed: YamlMapping, workflow: str) -> Iterator[Finding]:
    """Yield parameters that are one letter away from a listed one, which is not given."""
    for name in node.params:
        meant = next((one for one in listed if is_slip(name, one)), None)
        if name not in listed and meant is not None and meant not in node.params:
            yield Finding(
                file=workflow,
                key=f"{node_place(node)}.{name}",
                problem=f"{node.impl} has no parameter of this name",
                expected=", ".join(listed),
                hint=f"did you mean {meant!r}?",
            )


def _spec(entry: object) -> YamlMapping | None:
    """Return what an operation says of itself; ``None`` if it says nothing."""
    reference = entry.get("spec") if isinstance(entry, dict) else None
    spec = upstream.load_object(reference) if isinstance(reference, str) else None
    return spec if isinstance(spec, dict) else None


def _missing(node: PlanNode, params: YamlMapping, workflow: str) -> Iterator[Finding]:
    """Yield parameters without which FAST-HEP does not run an operation."""
    for name, said in params.items():
        wanted = isinstance(said, dict) and said.get("required", False)
        if wanted and name not in node.params and name not in _GIVEN:
            yield Finding(
                file=workflow,
                key=f"{node_place(node)}.{name}",
                problem=f"is missing: {node.impl} needs it",
                expected=str(said.get("description") or said.get("type") or "a value"),
            )


def _not_allowed(node: PlanNode, params: YamlMapping, workflow: str) -> Iterator[Finding]:
    """Yield values that an observer's spec does not list; FAST-HEP looks at those of others."""
    for name, said in params.items():
        allowed = said.get("allowed") if isinstance(said, dict) else None
        if isinstance(allowed, list) and node.params.get(name, allowed[0]) not in allowed:
            yield not_among(
                node.params[name],
                map(str, allowed),
                problem="is not a valid value",
                file=workflow,
                key=f"{node_place(node)}.{name}",
            )


def _takes_inputs(node: PlanNode) -> bool:
    """Whether it is to be looked up by what names an operation takes its inputs."""
    names = [ref.input_name for ref in node.inputs if ref.input_name != "dependency"]
    return node.role == "transform" and names != ["stream"]


def _of_inputs(
    plan: Plan, node: PlanNode, known: _Named, declared: set[str], workflow: str
) -> Iterator[Finding]:
    """Yield inputs that the operation does not take, and arguments that nothing gives it."""
    own_modifiers = [
        name
        for name in modifiers_of(node, plan.registry)
        if not is_published(plan.registry, "execution_modifiers", name)
    ]
    if node.role != "transform" or own_modifiers or user_hooks(plan, plan.registry):
        return  # a modifier or a hook of the user's may give it others
    inputs = [ref.input_name for ref in node.inputs if ref.input_name != "dependency"]
    lacking = sorted(known.needed - set(inputs) - set(node.params) - declared)
    key = node_place(node)
    for name in inputs:
        if name not in known.names and (lacking or not known.takes_rest):
            taken = lacking or sorted(known.names - set(node.params))
            close = nearest(name, taken)
            yield Finding(
                file=workflow,
                key=f"{key.removesuffix('.params')}.from",
                problem=f"{node.impl} takes no input of this name",
                value=f"as: {name}",
                expected=", ".join(taken) or "no input",
                hint=f"did you mean {close!r}?" if close else None,
            )
            return
    if not inputs and lacking == ["stream"]:
        yield Finding(
            file=workflow,
            key=f"{key.removesuffix('.params')}.needs",
            problem=f"{node.impl} gets no events: several needs only order stages",
            expected="from: the stage whose events it takes",
        )
        return
    for name in lacking:
        yield Finding(
            file=workflow,
            key=f"{key}.{name}",
            problem=f"is missing: the function of {node.impl} needs it",
            expected="a value",
        )


def _of_function(
    node: PlanNode, known: _Named, given: set[str], listed: YamlMapping, workflow: str
) -> Iterator[Finding]:
    """Yield what a user's function is called with and does not take, or needs and is not given."""
    key = node_place(node)
    if node.role != "sink" and not known.takes_rest and "ctx" not in known.names:
        yield Finding(
            file=workflow,
            key=f"{key.removesuffix('.params')}.op",
            problem=f"the function of {node.impl} does not take ctx, which FAST-HEP always gives",
            expected=", ".join([*sorted(known.names), "ctx=None"]),
        )
    for name in sorted(given & set(node.params)):
        if not known.takes_rest and name not in known.names:
            close = nearest(name, known.names - set(node.params) - _HANDED)
            yield Finding(
                file=workflow,
                key=f"{key}.{name}",
                problem=f"the spec of {node.impl} lists this parameter, and its function does not "
                "take it",
                expected=", ".join(sorted(known.names - _HANDED)) or "no parameters",
                hint=f"did you mean {close!r}?"
                if close
                else f"write {name} between the brackets of the function",
            )
    for name in sorted((known.needed & set(listed)) - set(node.params)):
        entry = listed[name]
        if not (isinstance(entry, dict) and entry.get("required")):
            yield Finding(
                file=workflow,
                key=f"{key}.{name}",
                problem=f"is missing: the function of {node.impl} has no default for it, and "
                "FAST-HEP does not hand over that of the spec",
                expected=f"a value, or {name}=… in the function",
            )


def _read_by_compiler(spec: YamlMapping) -> set[str]:
    """Return the parameters that a spec names where it says what the operation reads and makes."""
    found = _PARAMS.findall(repr((spec.get("requires"), spec.get("provides"))))
    return set(found)


@dataclass(frozen=True)
class _Named:
    """The names of a function's arguments, those without a default, and whether it takes others."""

    names: frozenset[str]
    needed: frozenset[str]
    takes_rest: bool


@cache
def _named_by(reference: str) -> _Named | None:
    """Return the names of a function's arguments; ``None`` if it may read any, or is no function.

    Arguments that only ``**rest`` takes are not read if the function never looks at it. Those
    of FAST-HEP hand it on, to functions that know what their specs declare.
    """
    module, _, name = reference.partition(":")
    path = op_identity.module_file(module)
    if path is None:
        return None
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    found = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == name]
    if len(found) != 1 or found[0].decorator_list or _is_bound_again(tree, name):
        return None
    (function,) = found
    rest = function.args.kwarg
    if rest is not None and not op_identity.is_published(module) and _reads(function, rest.arg):
        return None
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    names = frozenset(one.arg for one in arguments)
    plain = [*function.args.posonlyargs, *function.args.args]
    free = plain[len(plain) - len(function.args.defaults) :] if function.args.defaults else []
    named = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    free += [one for one, default in named if default is not None]
    needed = names - {one.arg for one in free} - {"ctx"}
    return _Named(names, needed, rest is not None)


def _is_bound_again(tree: ast.Module, name: str) -> bool:
    """Whether a module gives the name of its function to something else, too."""
    bound = 0
    left: list[ast.AST] = list(tree.body)
    while left:
        node = left.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound += node.name == name  # what is inside is not the module's
        elif isinstance(node, ast.alias):
            bound += (node.asname or node.name) == name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound += node.id == name
        else:
            left += ast.iter_child_nodes(node)
    return bound > 1


def _reads(function: ast.FunctionDef, name: str) -> bool:
    """Whether a function looks at a variable; ``locals()`` and its like look at all."""
    return any(
        isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and node.id in (name, "locals", "vars", "eval", "exec")
        for node in ast.walk(function)
    )
