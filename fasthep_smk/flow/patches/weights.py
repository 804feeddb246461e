"""Look at each weight of a histogram or cutflow: FAST-HEP sums a list of values for each event.

A weight is looked at as the operation evaluates it. To evaluate it once more would take as long
again, and a function with random numbers of its own would give others to the operation. For the
same reason a weight is evaluated once for several histograms only if it calls no function.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from fasthep_smk.flow import upstream
from fasthep_smk.flow.column_types import depth_of, depths_of_weights
from fasthep_smk.flow.patches import WEIGHTS
from fasthep_smk.flow.syntax_hints import as_python

if TYPE_CHECKING:
    import awkward as ak

    from fasthep_smk.flow.shapes import Context

__all__ = ["ListAsWeight", "forget_weights", "look_at_weights"]


class _Evaluated(NamedTuple):
    events: object
    text: str
    value: object


#: The weights of the operation that runs, and how deep each may be.
_weights: dict[str, int] = {}
#: The last weight, if it is arithmetic of columns. One: a column of each could fill the memory.
_last: _Evaluated | None = None


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


def look_at_weights(impl: str, params: Mapping[str, object], events: ak.Array | None) -> None:
    """Raise, here or from the operation that begins, if a weight of it is a list of values.

    ``events`` is what it reads, if that is one array.

    Raises:
        ListAsWeight: a column is such a weight.
    """
    _weights.clear()
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
    global _last
    _last = None
    _weights.clear()


def _evaluated(impl: str, events: ak.Array, text: str, ctx: Context) -> object:
    """Evaluate an expression of an operation; what is a weight is looked at."""
    global _last
    if text not in _weights:
        return upstream.eval_expr(events, text, ctx)
    if _last is not None and _last.events is events and _last.text == text:
        value = _last.value
    else:
        value = upstream.eval_expr(events, text, ctx)
        _last = _Evaluated(events, text, value) if _is_of_columns(text, events, ctx) else None
    _check(impl, text, value)
    return value


def _is_of_columns(text: str, events: ak.Array, ctx: Context) -> bool:
    """Whether an expression is arithmetic of columns: the same whenever it is evaluated."""
    nodes = list(ast.walk(ast.parse(as_python(text), mode="eval")))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names <= set(events.fields) - set(ctx) and not any(
        isinstance(node, ast.Call) for node in nodes
    )


def _check(impl: str, text: str, value: object) -> None:
    try:
        depth = depth_of(value)
    except Exception:  # the operation says what is wrong with it
        return
    if depth > _weights[text]:
        raise ListAsWeight(text, impl)
