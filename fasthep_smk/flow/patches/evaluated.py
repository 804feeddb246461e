"""Look at what FAST-HEP's operations read and evaluate: axes, weights, selections, expressions.

An expression is looked at as the operation evaluates it. To evaluate it once more would take as
long again, and a function with random numbers of its own would give others to the operation.

Several histograms of a job that share a weight share its values if nothing can change them: it is
arithmetic of columns, and nothing but FAST-HEP's own operations, hooks and modifiers runs.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from fasthep_smk.flow import upstream
from fasthep_smk.flow.column_types import (
    TOTAL,
    UnfitColumn,
    events_of,
    look_at_axes,
    look_at_selection,
    look_at_sums,
    look_at_terms,
    names_in,
    pairs_with,
    refuse_bits,
    refuse_totals,
    refuse_values,
    selections,
    shape_of,
    unpaired,
    values_of,
    weights_of,
)
from fasthep_smk.flow.patches import EVALUATED
from fasthep_smk.flow.places import as_python, mapping
from fasthep_smk.flow.summary import DROPPED, NOT_FINITE

if TYPE_CHECKING:
    import awkward as ak

    from fasthep_smk.flow.shapes import Context, PlanNode

_CUTFLOW, _HIST, _MASS = "hep.selection.cutflow", "hep.hist", "hep.di_object_mass"
_DEFINE, _LOOKUP = "hep.define", "hep.weights.lookup_csv"


class _Evaluated(NamedTuple):
    #: Of the events when it was evaluated: to assign a column gives them another one.
    layout: object
    text: str
    value: object


@dataclass
class _Operation:
    """The operation that runs, and what is to be looked at.

    ``lists`` is the first axis of a histogram that has lists. ``not_finite`` says of which events a
    weight is NaN or infinite, ``warning`` what is told of them.
    """

    node: PlanNode
    ctx: Context
    events: ak.Array
    share: bool
    weights: frozenset[str]
    selections: Mapping[str, str]
    lists: str | None
    not_finite: Any = False
    warning: dict[str, object] = field(default_factory=dict)


_running: _Operation | None = None
#: The last weight, if it may be shared. One: a column of each could fill the memory.
_last: _Evaluated | None = None
_is_close = False
_OF_BITS = frozenset("~&|^")
#: What arithmetic of columns is made of; an attribute may be a property, with a code of its own.
_ARITHMETIC = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Name, ast.Constant,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.Load,
)  # fmt: skip


def look_at_inputs(
    node: PlanNode, inputs: Mapping[str, object], ctx: Context, *, share: bool = False
) -> None:
    """Raise, here or from the operation that begins, if it would make a wrong number of a column.

    ``share`` says that a weight may be that of the operation before. A weight that is NaN or
    infinite is a warning of the job.

    Raises:
        UnfitColumn: as it says.
    """
    global _running
    _running = None
    evaluates = f"{upstream.evaluating_module(node.impl)}:eval_expr" in EVALUATED.replaces
    if not evaluates and node.impl != _LOOKUP:
        return
    params = node.params
    streams = (events for events in map(events_of, inputs.values()) if events is not None)
    events = next(streams, None)
    if events is None:
        raise UnfitColumn(
            "stream",
            "the input of this stage is not an array of events",
            "let an operation of your own return ak.zip({name: column, …}, depth_limit=1)",
        )
    if not evaluates:
        if (variable := str(params.get("variable"))) in events.fields:
            refuse_values(variable, events[variable])
        return
    module = upstream.evaluating_operation(node.impl)
    if module.eval_expr is upstream.eval_expr:
        EVALUATED.make(module, eval_expr=_evaluated)
    weights = frozenset(weights_of(node.impl, params))
    selected = {as_python(read): text for text, read in selections(node.impl, params)}
    lists, dropped = None, 0
    if node.impl == _HIST:
        lists, dropped = look_at_axes(params, events, weighted=bool(weights))
    if dropped:
        problem = "values of the axis are missing (None), so they are in no bin"
        missing = _told(node, DROPPED, dropped, problem)
        ctx.setdefault("_warnings", []).append(missing)
    _running = _Operation(node, ctx, events, share, weights, selected, lists)
    for text in weights.intersection(events.fields):
        _look_at_weight(_running, text, events[text])  # a cutflow does not evaluate it
    if node.impl == _MASS:
        for read, text in selected.items():
            if read in events.fields:
                look_at_selection(text, events[read])


def look_closely() -> None:
    """Look in this process also at what takes an evaluation more: bits, sums over all events."""
    global _is_close
    _is_close = True


def _told(node: PlanNode, category: str, events: int, problem: str) -> dict[str, object]:
    """Return a warning as FAST-HEP keeps them in the context."""
    message = f"{events} {problem}"
    return {"node_id": node.id, "category": category, "events": events, "message": message}


def forget_evaluated() -> None:
    """Keep no weight, nor the events that it is of."""
    global _last, _running
    _last = _running = None


def _evaluated(events: ak.Array, text: str, ctx: Context) -> object:
    """Evaluate an expression of an operation, and look at it."""
    if _running is None:
        return upstream.eval_expr(events, text, ctx)
    look_at_terms(text, events)
    if _is_close and not _OF_BITS.isdisjoint(text):
        variables = map(mapping, _running.node.params.get("variables") or ())
        expressions = [variable.get("expr") for variable in variables]
        is_condition = _running.node.impl == _DEFINE and text not in expressions
        refuse_bits(text, events, ctx, is_condition=is_condition)
    if _is_close and "(" in text:
        refuse_totals(text, events, ctx)
    if text not in _running.weights:
        value: Any = upstream.eval_expr(events, text, ctx)
    else:
        value = _weight(_running, events, text, ctx)
    count = len(value) if getattr(value, "ndim", 0) else 1
    constant = type(value) in (bool, int, float)  # not what NumPy makes of a column
    if count != len(events) and not constant and not names_in(text).isdisjoint(events.fields):
        raise UnfitColumn(
            text,
            TOTAL if count == 1 else f"makes {count} values from {len(events)} events",
            "reduce with axis=1",
        )
    if text in _running.weights:
        _look_at_weight(_running, text, value)
    elif as_python(text) in _running.selections:
        look_at_selection(_running.selections[as_python(text)], value)
    elif _running.node.impl == _CUTFLOW and count > 1 and shape_of(value)[1] == "b":
        look_at_selection(text, value)  # the operation says what is wrong with others
    return value


def _weight(running: _Operation, events: ak.Array, text: str, ctx: Context) -> object:
    """Evaluate a weight, or return that of the operation before if it is the same."""
    global _last
    shared = running.events
    if not running.share or shared is not events:
        return upstream.eval_expr(events, text, ctx)
    if _last is not None and _last.layout is shared.layout and _last.text == text:
        return _last.value
    value, _last = upstream.eval_expr(events, text, ctx), None
    if _is_arithmetic(text, shared, ctx):
        _last = _Evaluated(shared.layout, text, value)
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


def _look_at_weight(running: _Operation, text: str, value: Any) -> None:
    if not getattr(value, "ndim", 0):
        return  # the operation says what is wrong with it
    lengths = refuse_values(text, value)
    reference = [] if running.lists is None else shape_of(running.events[running.lists])[0]
    if not pairs_with(lengths, reference):
        if running.lists is not None and len(lengths) <= len(reference):
            raise unpaired(text, value, running.lists, running.events[running.lists])
        axes = ", but the axes have one value" if running.node.impl == _HIST else ""
        raise UnfitColumn(
            text,
            f"this weight has a list of values for each event{axes}",
            "a weight has one value for each event: write leading(…) for the first value, or "
            "combine the values in an operation of your own",
        )
    if running.node.impl == _CUTFLOW:
        look_at_sums(text, value)
    _warn_of_not_finite(running, value)


def _warn_of_not_finite(running: _Operation, weight: Any) -> None:
    """Warn once of the events of which a weight of an operation is NaN or infinite."""
    import awkward as ak
    import numpy as np

    values = values_of(weight)
    if values.dtype.kind != "f":
        return
    with np.errstate(all="ignore"):
        # A sum makes no array of as many answers; one that is too large is not finite, either.
        if np.isfinite(np.sum(values)) or np.isfinite(values).all():
            return
    events = ~np.isfinite(ak.Array(weight))
    while events.ndim > 1:
        events = ak.any(events, axis=-1)
    running.not_finite = np.asarray(events) | running.not_finite
    count = int(running.not_finite.sum())
    if not running.warning:
        running.ctx.setdefault("_warnings", []).append(running.warning)
    problem = "events have a weight that is NaN or infinite"
    running.warning |= _told(running.node, NOT_FINITE, count, problem)
