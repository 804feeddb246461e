"""Look at each weight of a histogram or cutflow: FAST-HEP sums a list of values for each event.

A weight is looked at as the operation evaluates it. To evaluate it once more would take as long
again, and a function with random numbers of its own would give others to the operation.

Several histograms of a job that share a weight share its values if nothing can change them: it is
arithmetic of columns, and nothing but FAST-HEP's own operations, hooks and modifiers runs.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from fasthep_smk.flow import upstream
from fasthep_smk.flow.column_types import depth_of, depths_of_weights
from fasthep_smk.flow.patches import WEIGHTS

if TYPE_CHECKING:
    import awkward as ak

    from fasthep_smk.flow.shapes import Context

__all__ = ["ListAsWeight", "forget_weights", "look_at_weights"]


class _Evaluated(NamedTuple):
    #: Of the events when it was evaluated: to assign a column gives them another one.
    layout: object
    text: str
    value: object


#: The weights of the operation that runs, and how deep each may be.
_weights: dict[str, int] = {}
#: The last weight, if it may be shared. One: a column of each could fill the memory.
_last: _Evaluated | None = None
#: What the operation that runs reads, if its weights may be shared.
_shared: ak.Array | None = None
#: What arithmetic of columns is made of; an attribute may be a property, with a code of its own.
_ARITHMETIC = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Name, ast.Constant,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.Load,
)  # fmt: skip


class ListAsWeight(ValueError):
    """A weight has several values where one belongs; ``text`` is how the workflow writes it."""

    hint = (
        "a weight has one value for each event: write leading(…) for the first of them, or let an "
        "op of your own make one of all"
    )

    def __init__(self, text: str, impl: str) -> None:
        axes = ", and the axes have one value" if impl == "hep.hist" else ""
        self.text, self.problem = text, f"this weight has a list of values for each event{axes}"
        super().__init__(f"{text}: {self.problem}")


def look_at_weights(
    impl: str, params: Mapping[str, object], events: ak.Array | None, *, share: bool = False
) -> None:
    """Raise, here or from the operation that begins, if a weight of it is a list of values.

    ``events`` is what it reads, if that is one array. ``share`` says that a weight may be that of
    the operation before.

    Raises:
        ListAsWeight: a column is such a weight.
    """
    global _shared
    _weights.clear()
    _shared = events if share else None
    if events is None or not (found := depths_of_weights(impl, params, events)):
        return
    module = upstream.weighing_operation(impl)
    if module.eval_expr is upstream.eval_expr:
        WEIGHTS.make(module, eval_expr=partial(_evaluated, impl))
    _weights.update(found)
    for text in found:
        if text in events.fields:  # a cutflow does not evaluate it
            _check(impl, text, events[text])


def forget_weights() -> None:
    """Keep no weight, nor the events that it is of."""
    global _last, _shared
    _last = _shared = None
    _weights.clear()


def _evaluated(impl: str, events: ak.Array, text: str, ctx: Context) -> object:
    """Evaluate an expression of an operation; what is a weight is looked at."""
    global _last
    if text not in _weights:
        return upstream.eval_expr(events, text, ctx)
    shared = _shared
    if shared is None or shared is not events:
        value = upstream.eval_expr(events, text, ctx)
    elif _last is not None and _last.layout is shared.layout and _last.text == text:
        value = _last.value
    else:
        value, _last = upstream.eval_expr(events, text, ctx), None
        if _is_arithmetic(text, shared, ctx):
            _last = _Evaluated(shared.layout, text, value)
    _check(impl, text, value)
    return value


def _is_arithmetic(text: str, events: ak.Array, ctx: Context) -> bool:
    """Whether an expression is arithmetic of columns: the same whenever it is evaluated."""
    try:
        nodes = list(ast.walk(ast.parse(text, mode="eval")))
    except SyntaxError:  # FAST-HEP knows signs that Python does not
        return False
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names <= set(events.fields) - set(ctx) and all(
        isinstance(node, _ARITHMETIC) for node in nodes
    )


def _check(impl: str, text: str, value: object) -> None:
    try:
        depth = depth_of(value)
    except Exception:  # the operation says what is wrong with it
        return
    if depth > _weights[text]:
        raise ListAsWeight(text, impl)
