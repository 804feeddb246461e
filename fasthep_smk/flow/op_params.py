"""Findings about parameters that no operation reads.

FAST-HEP hands an operation all parameters of its stage. One that its implementation has no name for
is a mistake: it ends each job with a TypeError, or is swallowed by ``**_``. What an implementation
reads is taken from its source, so that nothing is imported for it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from typing import Any

from fasthep_smk.flow import op_identity, upstream
from fasthep_smk.flow.reads import CATEGORY
from fasthep_smk.util.errors import Finding, nearest

__all__ = ["parameter_findings"]

#: What FAST-HEP's compiler and engine add to the parameters, or read of them themselves.
_FROM_FASTHEP = frozenset(
    (
        *("branches", "branches_by_dataset", "datasets", "defaults", "fields"),
        *("node_id", "out", "stream_id", "when"),
    )
)
#: Renderers take all that a style may hold: the schema of the language knows it.
_RENDERERS = "hep.render."


def parameter_findings(plan: Any, *, workflow: str) -> list[Finding]:
    """Return the parameters of a compiled plan that their operations do not read."""
    found: list[Finding] = []
    for node in plan.nodes:
        # The patch of an inline variation may speak of what only the operation's users know.
        if "@" not in node.id and not str(node.impl).startswith(_RENDERERS):
            found += _of_node(plan, node, workflow)
    return found


def _of_node(plan: Any, node: Any, workflow: str) -> Iterator[Finding]:
    entry = (plan.registry.get(CATEGORY[node.role]) or {}).get(node.impl)
    known = _named_by(str(entry.get("impl"))) if isinstance(entry, dict) else None
    spec = upstream.component_spec_for_node(node, plan.registry) if known is not None else None
    if known is None or spec is None:
        return
    declared = set(getattr(spec, "params", None) or {})
    for name in node.params:
        if name in known | declared | _FROM_FASTHEP:
            continue
        close = nearest(name, known | declared)
        meta = dict(node.meta or {})
        stage = str(meta.get("stage_id") or node.id)
        place = f"analysis.stages[{stage!r}].params" if node.role == "transform" else node.id
        yield Finding(
            file=workflow,
            key=f"{place}.{name}",
            problem=f"{node.impl} has no parameter of this name",
            expected=", ".join(sorted(declared or known)) or "no parameters",
            hint=f"did you mean {close!r}?" if close else None,
        )


@cache
def _named_by(reference: str) -> frozenset[str] | None:
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
    if len(found) != 1 or found[0].decorator_list:
        return None
    (function,) = found
    rest = function.args.kwarg
    if rest is not None and not op_identity.is_published(module) and _reads(function, rest.arg):
        return None
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return frozenset(one.arg for one in arguments)


def _reads(function: ast.FunctionDef, name: str) -> bool:
    """Whether a function looks at a variable; ``locals()`` and its like look at all."""
    return any(
        isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and node.id in (name, "locals", "vars", "eval", "exec")
        for node in ast.walk(function)
    )
