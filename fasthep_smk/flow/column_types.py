"""What columns are, where FAST-HEP's operations do not ask: how many values, and of what type.

A cutflow sums whatever its weight is: a column of lists counts an event as often as it has values.
A variable may be one number for all events of a job: another one if files are cut otherwise.
A selection of objects by whole numbers takes the objects at these places.
An axis of type bool has a bin for 0 and one for 1: all else is in the overflow.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from fasthep_smk.flow import upstream
from fasthep_smk.flow.places import mapping

if TYPE_CHECKING:
    import awkward as ak
    import numpy as np

    from fasthep_smk.flow.shapes import Context

__all__ = [
    "Problem",
    "depth_of",
    "depths_of_weights",
    "events_of",
    "flag_problems",
    "inverted",
    "is_one_for_all",
    "selection_problems",
]

#: The text in the workflow that is wrong, what is wrong with it, and what to write.
Problem = tuple[str, str, str]

_CUTFLOW, _HIST = "hep.selection.cutflow", "hep.hist"
_OBJECTS, _FLAG, _MASS = "hep.select_objects", "hep.selection.flag", "hep.di_object_mass"
_PAIRS, _LEPTON = "hep.build_pairs", "hep.build_lepton_met_candidate"


def events_of(value: object) -> ak.Array | None:
    """Return the array with a field for each column that an operation is given, if it is one.

    FAST-HEP hands it on alone, or by the name of its stream.
    """
    import awkward as ak

    held = next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value
    return held if isinstance(held, ak.Array) and ak.fields(held) else None


def depths_of_weights(impl: str, params: Mapping[str, object], events: ak.Array) -> dict[str, int]:
    """Return the weights of a histogram or cutflow, and how deep each may be.

    ``events`` is what the operation reads. A histogram of lists (one entry for each muon) may have
    a weight for each entry; any other has one for each event.
    """
    weights = list(_weights(impl, params))
    if not weights:
        return {}
    deepest = max([1, *(depth_of(column) for _, column in _axes(params, events))])
    return dict.fromkeys(weights, deepest)


def flag_problems(impl: str, params: Mapping[str, object], events: ak.Array) -> Iterator[Problem]:
    """Yield the columns of axes of type bool that hold other values than 0 and 1."""

    if impl != _HIST:
        return
    for axis, column in _axes(params, events):
        if axis.get("type") != "bool":
            continue
        try:
            values = _values(column)
            odd = values[(values != 0) & (values != 1)]
        except Exception:  # filling the histogram says what is wrong
            continue
        if len(odd):
            yield (
                str(axis.get("source")),
                f"this column holds {odd[0]!s}, and an axis of type bool has bins for 0 and 1 only",
                "type: int has a bin for each value; or let a hep.define make a flag: column > 0",
            )


def selection_problems(
    impl: str, params: Mapping[str, object], events: ak.Array, ctx: Context
) -> Iterator[Problem]:
    """Yield what selects objects or events and is a number, not a yes or no."""

    for text, read, columns in _selections(impl, params, events):
        try:
            values = _values(_column(columns, read, ctx))
        except Exception:  # the operation itself says what is wrong with it
            continue
        if values.dtype.kind in "iuf":
            yield (
                text,
                f"is a number ({values.dtype}), and selects by position: a selection is a yes or "
                "no for each object or event",
                f"compare it: ({text}) != 0, or ({text}) > 0",
            )


def _selections(
    impl: str, params: Mapping[str, object], events: ak.Array
) -> Iterator[tuple[str, str, ak.Array]]:
    """Yield each selection: its text, the expression that it stands for, and what that reads."""
    listed: object = params.get("mask") if impl == _MASS else params.get("selection")
    columns = events
    if impl == _PAIRS:
        collections = params.get("collections")
        first = collections[0] if isinstance(collections, list) and collections else None
        columns = _objects(events, str(first), ("lepton_1_", "lepton_2_"))
        listed = mapping(listed).get("pair")
    elif impl == _LEPTON:
        columns = _objects(events, str(params.get("lepton")), ("",))
        listed = mapping(listed).get("lepton")
    elif impl not in (_OBJECTS, _FLAG, _MASS):
        return
    for text in listed if isinstance(listed, list) else [listed]:
        if not isinstance(text, str):
            continue
        read = text
        if impl == _OBJECTS:
            read = upstream.resolve_collection_expression(
                text, collection=str(params.get("collection"))
            )
        yield text, read, columns


def _objects(events: ak.Array, collection: str, prefixes: tuple[str, ...]) -> ak.Array:
    """Return the fields of a collection by the names that an operation gives them.

    For pairs, the two objects of each are the same one: what type an expression has shows as well.
    """
    import awkward as ak

    start = f"{collection}_"
    columns = {
        f"{prefix}{name.removeprefix(start)}": events[name]
        for prefix in prefixes
        for name in events.fields
        if name.startswith(start)
    }
    return ak.zip(columns, depth_limit=1) if columns else events


def inverted(
    text: str, events: ak.Array, ctx: Context, *, is_condition: bool = False
) -> Iterator[Problem]:
    """Yield ``~x`` where a yes or no belongs and x is a whole number: ~0 is -1, ~1 is -2.

    Such a place is the condition of ``where``; a whole expression if it ``is_condition``.
    """
    # Jobs, which ask for weights only, need not import it.
    from fasthep_smk.flow.syntax_hints import as_python

    tree = ast.parse(as_python(text), mode="eval")
    asked = [
        node.args[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "where" and node.args
    ]
    for part in [*asked, *([tree.body] if is_condition else [])]:
        if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Invert):
            turned = ast.unparse(part.operand)
            if _values(_column(events, turned, ctx)).dtype.kind in "iu":
                problem = f"'~' inverts the bits of a whole number: ~({turned}) is true for 0 and 1"
                yield text, problem, f"write {turned} == 0"


def is_one_for_all(events: ak.Array, text: str, ctx: Context) -> bool:
    """Whether an expression is one value, however many events there are.

    Raises:
        Exception: whatever evaluating it raises.
    """
    import awkward as ak

    value = _column(events, text, ctx)
    return not isinstance(value, ak.Array | ak.Record) and getattr(value, "ndim", 0) == 0


def _weights(impl: str, params: Mapping[str, object]) -> Iterator[str]:
    found: list[object] = []
    if impl == _CUTFLOW:
        found = [params.get("weight_expr", params.get("weight"))]
    elif impl == _HIST and params.get("storage") == "weighted":
        variations = mapping(params.get("variations"))
        found = [params.get("weight_expr"), *mapping(variations.get("weights")).values()]
    yield from (one for one in found if isinstance(one, str) and one.strip())


def _axes(
    params: Mapping[str, object], events: ak.Array
) -> Iterator[tuple[Mapping[str, object], object]]:
    listed = params.get("axes")
    for axis in map(mapping, listed if isinstance(listed, list) else ()):
        source = axis.get("source")
        if isinstance(source, str) and source in events.fields:
            yield axis, events[source]


def _column(events: ak.Array, text: str, ctx: Context) -> object:
    return events[text] if text in events.fields else upstream.eval_expr(events, text, ctx)


def _values(column: object) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    """Return all values of a column, without its lists."""
    import awkward as ak
    import numpy as np

    return np.asarray(ak.to_numpy(ak.flatten(column, axis=None)))


def depth_of(column: object) -> int:
    """Return how deep a column is: 1 for a value for each event, 2 for a list of values.

    A dimension of length one, as that of NumPy arrays of shape (events, 1), makes no list.
    """
    import awkward as ak

    array = ak.Array(column)
    kind, alone = array.type.content, 0
    while hasattr(kind, "content"):
        alone += isinstance(kind, ak.types.RegularType) and kind.size == 1
        kind = kind.content
    return int(array.ndim) - alone
