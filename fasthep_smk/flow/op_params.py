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
from fasthep_smk.flow.reads import CATEGORY
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, nearest

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import ComponentSpec, Plan, PlanNode

__all__ = ["parameter_findings"]

#: What FAST-HEP's compiler and engine add to the parameters, or read of them themselves.
_FROM_FASTHEP = frozenset(
    (
        *("branches", "branches_by_dataset", "datasets", "defaults", "fields"),
        *("node_id", "out", "stream_id", "when"),
    )
)
#: What a writer gets of the entry of ``outputs`` that it uses.
_OF_OUTPUTS = ("use", "tree", "keep")
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
    spec: ComponentSpec | None = upstream.component_spec_for_node(node, plan.registry)
    if spec is None or spec.dependency_parser:
        return  # a parser may read any
    declared = set(spec.params or {}) | _read_by_compiler(spec)
    odd = [name for name in node.params if name in said - declared - _FROM_FASTHEP]
    entry = (plan.registry.get(CATEGORY[node.role]) or {}).get(node.impl)
    known = _named_by(str(entry.get("impl"))) if odd and isinstance(entry, dict) else None
    if known is None:
        return
    for name in odd:
        if name in known.names:
            continue
        if known.takes_rest and (name.startswith("x-") or name in ("comment", "description")):
            continue
        if node.role == "sink" and name in _OF_OUTPUTS and known.takes_rest:
            continue
        close = nearest(name, known.names | declared, cutoff=0.7)
        yield Finding(
            file=workflow,
            key=f"{_place(node)}.{name}",
            problem=f"{node.impl} has no parameter of this name",
            expected=", ".join(sorted(declared or known.names)) or "no parameters",
            hint=f"did you mean {close!r}?" if close else None,
        )


def _place(node: PlanNode) -> str:
    stage = dict(node.meta or {}).get("stage_id")
    kind, _, rest = node.id.partition(".")
    name, _, number = rest.rpartition(".")
    if kind == "write" and number.isdigit():
        return f"analysis.stages[{name!r}].write[{number}]"
    return f"analysis.stages[{stage!r}].params" if stage else str(node.id)


def _read_by_compiler(spec: ComponentSpec) -> set[str]:
    """Return the parameters that a spec names where it says what the operation reads and makes."""
    found = _PARAMS.findall(repr((spec.requires, spec.provides)))
    return set(found)


@dataclass(frozen=True)
class _Named:
    """The names of a function's arguments, and whether it takes others as well."""

    names: frozenset[str]
    takes_rest: bool


@cache
def _named_by(reference: str) -> _Named | None:
    """Return the names of a function's arguments; ``None`` if it may read any, or is no function.

    Arguments that only ``**rest`` takes are read by nobody if the function never looks at it. Those
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
    names = frozenset(one.arg for one in arguments if one.arg not in ("stream", "target", "ctx"))
    return _Named(names, rest is not None)


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
