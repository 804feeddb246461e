"""What columns are, where FAST-HEP's operations do not ask: how many values, and of what type.

A cutflow sums whatever its weight is: a column of lists counts an event as often as it has values.
A variable may be one number for all events of a job: another one if files are cut otherwise.
A selection of objects by whole numbers takes the objects at these places.
An axis of type bool has a bin for 0 and one for 1: all else is in the overflow.
A histogram flattens each column by itself: a value that is missing (None) is dropped, and those of
other events may take its place. Lists of a fixed length are paired with events as NumPy does it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fasthep_smk.flow import upstream
from fasthep_smk.flow.places import as_python, mapping

if TYPE_CHECKING:
    import awkward as ak
    import numpy as np

    from fasthep_smk.flow.shapes import Context

_CUTFLOW, _HIST = "hep.selection.cutflow", "hep.hist"
_OBJECTS, _FLAG, _MASS = "hep.select_objects", "hep.selection.flag", "hep.di_object_mass"
_PAIRS, _LEPTON = "hep.build_pairs", "hep.build_lepton_met_candidate"
_RECOIL = "hep.build_recoil"
#: What is wrong with a sum over all events.
TOTAL = "this gives one number for all events of a job, not one for each event"
_BITS = ast.BitAnd | ast.BitOr | ast.BitXor
#: What expressions call for each value: what is given to them is paired, as by an operator.
_EACH_VALUE = ("abs", "cosh", "exp", "log", "log10", "sqrt", "where")


class UnfitColumn(ValueError):
    """A column or expression of which an operation would make a wrong number.

    ``text`` is how the workflow writes it, ``hint`` what to write.
    """

    def __init__(self, text: str, problem: str, hint: str) -> None:
        self.text, self.problem, self.hint = text, problem, hint
        super().__init__(f"{text}: {problem}")


def events_of(value: object) -> ak.Array | None:
    """Return the array with a field for each column that an operation is given, if it is one.

    FAST-HEP hands it on alone, or by the name of its stream.
    """
    import awkward as ak

    held = next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value
    return held if isinstance(held, ak.Array) and ak.fields(held) else None


def shape_of(column: object) -> tuple[list[int], str]:
    """Return how many values a column has for each event, and of what kind they are.

    The first is the length of each dimension below the events, -1 where it varies. The second is
    NumPy's letter for the type (``f`` for floats), ``S`` for text, ``V`` for records and unions,
    and nothing where no value says it.
    """
    import awkward as ak
    import numpy as np

    kind, lengths = ak.type(column).content, list[int]()
    while hasattr(kind, "content"):
        if kind.parameters.get("__array__") in ("string", "bytestring"):
            return lengths, "S"
        if isinstance(kind, ak.types.RegularType | ak.types.ListType):
            lengths.append(getattr(kind, "size", -1))
        kind = kind.content
    if isinstance(kind, ak.types.NumpyType):
        return lengths, np.dtype(kind.primitive).kind
    return lengths, "" if isinstance(kind, ak.types.UnknownType) else "V"


def pairs_with(lengths: list[int], reference: list[int]) -> bool:
    """Whether each value of a column meets the values of the same event in another one.

    Awkward repeats a value for each entry of a list. It does so as NumPy does, from the last
    dimension to the first, if both have lists of fixed lengths only: then a value for each event is
    paired with the places in the lists. A list of fixed length one is repeated, too.
    """
    varies = -1 in reference or -1 in lengths
    while varies and len(lengths) > len(reference) and lengths[-1] == 1:
        lengths = lengths[:-1]
    if not reference:
        return all(length == 1 for length in lengths)
    if len(lengths) > len(reference) or not (varies or len(lengths) == len(reference)):
        return False
    pairs = zip(lengths, reference, strict=False)
    return all(own in (1, other) or (varies and other != 1) for own, other in pairs)


def refuse_values(
    text: str, column: object, *, text_too: bool = False, missing_too: bool = False
) -> list[int]:
    """Return lengths as `shape_of`, or raise: a value is missing or no number (nor text)."""
    import awkward as ak

    lengths, kind = shape_of(column)
    if kind not in "biufS" or (kind == "S" and not text_too):
        shown = ak.type(column).content
        raise UnfitColumn(
            text, f"its values are of type {shown}, but must be numbers{' or texts' * text_too}",
            "convert it to a column of numbers in an operation of your own",
        )  # fmt: skip
    if not (missing_too and kind != "S"):
        _refuse_missing(text, column, "a text" if kind == "S" else "a number")
    return lengths


def _refuse_missing(text: str, column: object, other: str) -> None:
    import awkward as ak

    if missing := number_missing(column):
        shown = ak.type(column).content
        raise UnfitColumn(
            text, f"{missing} of its values are missing (None): they would be dropped, and "
            f"later values would move to their places; the type of the column is {shown}",
            f"write fill_none(…, {other}) in a hep.define, or drop such events in an earlier stage",
        )  # fmt: skip


def number_missing(column: object) -> int:
    """Return how many values of a column, or of its lists, are missing (None)."""
    import awkward as ak

    if not _may_miss(ak.to_layout(column)):
        return 0
    depth = len(shape_of(column)[0])
    levels = (ak.is_none(column, axis=axis) for axis in range(depth + 1))
    return sum(int(ak.sum(level, axis=None)) for level in levels)


def _may_miss(layout: Any) -> bool:
    """Whether a column, or what its lists hold, may have missing values."""
    while hasattr(layout, "content") and not layout.is_option:
        layout = layout.content
    return bool(layout.is_option or layout.is_union or layout.is_record)


def look_at_axes(
    params: Mapping[str, object], events: ak.Array, *, weighted: bool
) -> tuple[str | None, int]:
    """Return the first axis of a histogram that has lists, and how many values are dropped.

    The other axes are repeated as it is long. Of one axis without a weight, missing values are
    left out. Raises if the column of an axis would lose events else, or be paired with others.
    """
    axes = list(_axes(params, events))
    alone = len(axes) == 1 and not weighted and axes[0][0].get("type") != "bool"
    shapes = [
        refuse_values(name, events[name], text_too=True, missing_too=alone) for _, name in axes
    ]
    first = next((at for at, lengths in enumerate(shapes) if lengths), None)
    for (axis, name), lengths in zip(axes, shapes, strict=True):
        if first is not None and not pairs_with(lengths, shapes[first]):
            raise unpaired(name, events[name], axes[first][1], events[axes[first][1]])
        if axis.get("type") == "bool":
            values = values_of(events[name])
            odd = values[(values != 0) & (values != 1)]
            if len(odd) and values.dtype.kind in "iu":
                raise UnfitColumn(
                    name,
                    f"this column holds {odd[0]!s}, but an axis of type bool has bins for 0 and 1 "
                    "only",
                    "write 'type: int', which has a bin for each value, or define a condition "
                    "such as 'column > 0' in a hep.define",
                )
    dropped = number_missing(events[axes[0][1]]) if alone else 0
    return (axes[first][1] if first is not None else None), dropped


def unpaired(text: str, column: object, other: str, reference: object) -> UnfitColumn:
    """Return what is wrong with a column whose values would meet those of other events."""
    import awkward as ak

    return UnfitColumn(
        text,
        f"its values cannot be paired with those of {other}, event by event: their types are "
        f"{ak.type(column).content} and {ak.type(reference).content}",
        "in an operation of your own, make columns that can be paired: x[:, 0] is the first value "
        "of a list of fixed length, and ak.from_regular(x, axis=None) makes lists of any length",
    )


def look_at_selection(text: str, value: object) -> None:
    """Raise if what selects objects or events is not a yes or no for each."""
    import awkward as ak

    kind = shape_of(value)[1]
    if kind in "iuf" and kind:
        shown = str(ak.type(value).content)
        raise UnfitColumn(
            text,
            f"is a number ({shown.rpartition(' ')[2].lstrip('?')}), and numbers select by "
            "position: a selection must be true or false for each object or event",
            f"compare it: ({text}) != 0, or ({text}) > 0",
        )
    _refuse_missing(text, value, "False")


def selections(impl: str, params: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield what an operation selects by: its text, and the expression that it stands for."""
    if impl not in (_OBJECTS, _FLAG, _MASS, _PAIRS, _LEPTON, _RECOIL):
        return
    held = params.get("mask") if impl == _MASS else params.get("selection")
    for listed in mapping(held).values() or [held]:
        for text in listed if isinstance(listed, list) else [listed]:
            if isinstance(text, str):
                read = text
                if impl == _OBJECTS:
                    read = upstream.resolve_collection_expression(
                        text, collection=str(params.get("collection"))
                    )
                yield text, read


def look_at_sums(text: str, weight: object) -> None:
    """Raise if a cutflow's sums of a weight, and of its squares, do not fit into its type."""
    import numpy as np

    values: np.ndarray[Any, Any] = values_of(weight)
    if values.dtype.kind == "b" or values.dtype == np.float64:
        return
    wide = values.astype(np.float64)
    with np.errstate(all="ignore"):
        for own, exact in ((values, wide), (values * values, wide * wide)):
            # Rounding is FAST-HEP's, and where weights cancel, may be all that is left of a sum.
            is_off = abs(own.sum() - exact.sum()) > 0.01 * abs(exact).sum()
            if is_off or (values.dtype.kind in "iu" and not np.array_equal(own, exact)):
                problem = f"sums of this weight, and of its squares, do not fit into {values.dtype}"
                hint = "define the weight in hep.define with dtype: float64"
                raise UnfitColumn(text, problem, hint)


def look_at_terms(text: str, events: ak.Array) -> None:
    """Raise if an expression pairs values of an event with places in lists of a fixed length."""
    fields = set(events.fields)
    for names in _terms(text):
        there = sorted(names & fields)
        if len(there) < 2 or not any(_may_have_fixed_lists(events, name) for name in there):
            continue  # as nearly always: to tell shapes takes longer
        shapes = {name: shape_of(events[name])[0] for name in there}
        fixed = sorted((len(shape), name) for name, shape in shapes.items() if -1 not in shape)
        if fixed and fixed[0][0] != fixed[-1][0]:
            first, last = fixed[0][1], fixed[-1][1]
            wrong = unpaired(first, events[first], last, events[last])
            raise UnfitColumn(text, f"{first}: {wrong.problem}", wrong.hint)


def _may_have_fixed_lists(events: ak.Array, name: str) -> bool:
    record = events.layout.content if events.layout.is_indexed else events.layout
    column = record.content(name) if record.is_record else events[name].layout
    return bool(column.purelist_isregular and column.purelist_depth > 1)


@lru_cache(maxsize=1024)
def _terms(text: str) -> tuple[frozenset[str], ...]:
    """Return the names that an expression combines with each other value by value."""
    terms: list[frozenset[str]] = []

    def names(node: ast.AST) -> frozenset[str]:
        if isinstance(node, ast.Name):
            return frozenset({node.id})
        if isinstance(node, ast.Call):
            held = [names(arg) for arg in node.args]
            combines = ast.unparse(node.func) in _EACH_VALUE
        else:
            held = [names(child) for child in ast.iter_child_nodes(node)]
            combines = isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare)
        if combines:
            return frozenset().union(*held)
        terms.extend(held)
        return frozenset()

    try:
        terms.append(names(ast.parse(text, mode="eval").body))
    except SyntaxError:  # FAST-HEP knows signs that Python does not
        return ()
    return tuple(terms)


def names_in(text: str) -> frozenset[str]:
    """Return the names in an expression, but for those of functions."""
    return frozenset().union(*_terms(text))


def refuse_bits(text: str, events: ak.Array, ctx: Context, *, is_condition: bool) -> None:
    """Refuse bits of whole numbers where a yes or no is meant: ~0 is -1, ~1 is -2, 2 & True is 0.

    That is ``~n`` as a condition, of ``where`` or, if it ``is_condition``, of all, or in
    arithmetic; and ``n & good``. Parts of the expression are evaluated once more.

    Raises:
        UnfitColumn: as it says.
    """
    tree = ast.parse(as_python(text), mode="eval")
    asked: list[ast.expr] = [tree.body] if is_condition else []
    for part in ast.walk(tree):
        if isinstance(part, ast.Call) and ast.unparse(part.func) == "where":
            asked += part.args[:1]
        elif isinstance(part, ast.BinOp) and isinstance(part.op, _BITS):
            if _asks(part.left) and _asks(part.right):
                continue
            sides = [ast.unparse(side) for side in (part.left, part.right)]
            kinds = {read: _kind(read, events, ctx) for read in sides}
            for read in sides if "b" in kinds.values() else ():
                if kinds[read] in "iu" and not set(
                    values_of(_column(events, read, ctx)).tolist()
                ) <= {0, 1}:
                    problem = f"combines {read}, a whole number, with a condition, bit by bit"
                    raise UnfitColumn(
                        text, problem, f"write ({read} != 0), or for one bit ({read} & 2) != 0"
                    )
        elif isinstance(part, ast.BinOp):
            asked += [part.left, part.right]
    for part in asked:
        if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Invert):
            turned = ast.unparse(part.operand)
            if _kind(turned, events, ctx) in "iu":
                problem = f"'~' inverts the bits of a whole number: ~({turned}) is true for 0 and 1"
                raise UnfitColumn(text, problem, f"write {turned} == 0")


def refuse_totals(text: str, events: ak.Array, ctx: Context) -> None:
    """Refuse functions that make one number of all events of a job, as ``x - mean(x)`` does.

    Calls that are a part of the expression are evaluated once more, but those of NumPy's functions
    of each value, and of FAST-HEP's.

    Raises:
        UnfitColumn: as it says.
    """
    import numpy as np

    tree = ast.parse(as_python(text), mode="eval")
    functions = getattr(ctx.get("expr_registry"), "functions", {})
    for part in ast.walk(tree.body):
        if not isinstance(part, ast.Call) or part is tree.body:
            continue
        function = functions.get(ast.unparse(part.func))
        names = {node.id for node in ast.walk(part) if isinstance(node, ast.Name)}
        of_fasthep = str(getattr(function, "__module__", "")).startswith("fasthep_carpenter.")
        if isinstance(function, np.ufunc) or of_fasthep or names.isdisjoint(events.fields):
            continue
        try:
            value: Any = upstream.eval_expr(events, ast.unparse(part), ctx)
        except Exception:  # of which the whole expression tells
            return
        count = len(value) if getattr(value, "ndim", 0) else 1
        if count == 1 and len(events) > 1 and type(value) not in (bool, int, float):
            raise UnfitColumn(text, f"{ast.unparse(part)}: {TOTAL}", "reduce with axis=1")


def _kind(text: str, events: ak.Array, ctx: Context) -> str:
    """Return NumPy's letter for the type of a part of an expression; "-" if it is not a column."""
    column: Any = _column(events, text, ctx)
    return values_of(column).dtype.kind if getattr(column, "ndim", 0) else "-"


def _asks(part: ast.expr) -> bool:
    """Whether a part of an expression is made of comparisons alone."""
    if isinstance(part, ast.BinOp) and isinstance(part.op, _BITS):
        return _asks(part.left) and _asks(part.right)
    return isinstance(part, ast.Compare)


def weights_of(impl: str, params: Mapping[str, object]) -> Iterator[str]:
    """Yield the weights of a histogram or cutflow."""
    weights: list[object] = []
    if impl == _CUTFLOW:
        weights = [params.get("weight_expr", params.get("weight"))]
    elif impl == _HIST and params.get("storage") == "weighted":
        variations = mapping(params.get("variations"))
        weights = [params.get("weight_expr"), *mapping(variations.get("weights")).values()]
    yield from (weight for weight in weights if isinstance(weight, str) and weight.strip())


def _axes(
    params: Mapping[str, object], events: ak.Array
) -> Iterator[tuple[Mapping[str, object], str]]:
    listed = params.get("axes")
    for axis in map(mapping, listed if isinstance(listed, list) else ()):
        source = axis.get("source")
        if isinstance(source, str) and source in events.fields:
            yield axis, source


def _column(events: ak.Array, text: str, ctx: Context) -> object:
    return events[text] if text in events.fields else upstream.eval_expr(events, text, ctx)


def values_of(column: object) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    """Return all values of a column, without its lists."""
    import awkward as ak
    import numpy as np

    return np.asarray(ak.to_numpy(ak.flatten(column, axis=None)))
