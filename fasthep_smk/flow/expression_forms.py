"""What Python allows in an expression, and no expression of columns can mean.

A column has one entry for each event. ``Muon_pt[0]`` is the entry of the first event, ``is`` asks
whether two columns are one object, and a function with too few values fails in each job.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from fasthep_smk.flow.registered import called_as

__all__ = ["odd_forms"]

#: What never makes a column, in words.
_FORMS: tuple[tuple[tuple[type[ast.AST], ...], str], ...] = (
    ((ast.JoinedStr,), "a text with values in it (f'…')"),
    ((ast.Lambda,), "a function of its own (lambda)"),
    ((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), "a loop (for … in …)"),
    ((ast.Await, ast.Yield, ast.YieldFrom), "await or yield"),
    ((ast.NamedExpr,), "an assignment (:=)"),
    ((ast.Dict,), "a mapping ({…: …})"),
)
#: Of these, what is no column itself, and may be asked for a value.
_ASKED = (ast.Dict, ast.JoinedStr)
_OF_WHERE = 3
#: What of numpy's takes words besides its values.
_OF_UFUNC = ("where", "out", "casting", "order", "dtype", "subok", "signature")


def odd_forms(
    tree: ast.Expression,
    functions: Mapping[str, Callable[..., object] | None],
    is_column: Callable[[ast.expr], bool],
) -> Iterator[tuple[str, str | None]]:
    """Yield what is wrong with the form of an expression, and what to write.

    ``functions`` are those that it may call; ``None`` for one that cannot be looked at.
    """
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = {id(node.func) for node in calls}
    passed = {id(one) for node in calls for one in (*node.args, *(k.value for k in node.keywords))}
    asked = _asked(tree) | passed
    sets = {
        id(one)
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for one in node.comparators
    }
    for node in ast.walk(tree):
        for kinds, what in _FORMS:
            if isinstance(node, kinds) and not (isinstance(node, _ASKED) and id(node) in asked):
                yield f"{what} makes no column", None
        if isinstance(node, ast.Set) and id(node) not in sets:
            yield "braces make a set of it", "write round brackets"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield "'@' does not multiply columns: '*' does", None
        if isinstance(node, ast.Compare):
            yield from _compared(node, is_column)
        if isinstance(node, ast.Subscript) and is_column(node.value):
            yield from _first_event(node, functions)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield from _values_of(node, node.func.id, functions.get(node.func.id))
        if isinstance(node, ast.Name) and node.id in functions and id(node) not in called | passed:
            hint = f"write {_shown(node.id, functions[node.id])}"
            yield f"{node.id} is a function, and is not called", hint


def _asked(tree: ast.Expression) -> set[int]:
    """Return the mappings and texts that are looked into, or compared: ``{"dy": 2}[name]``."""
    found: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript | ast.Attribute):
            found.append(node.value)
        if isinstance(node, ast.Subscript):
            found.append(node.slice)
        if isinstance(node, ast.Compare):
            found += [node.left, *node.comparators]
    return {id(one) for one in found}


def _compared(
    node: ast.Compare, is_column: Callable[[ast.expr], bool]
) -> Iterator[tuple[str, str | None]]:
    parts = [node.left, *node.comparators]
    for sign, *sides in zip(node.ops, parts, node.comparators, strict=False):
        left, right = sides
        if isinstance(sign, ast.Is | ast.IsNot) and not _asks_for_none(sides, is_column):
            word, meant = ("is", "==") if isinstance(sign, ast.Is) else ("is not", "!=")
            hint = f"write {ast.unparse(left)} {meant} {ast.unparse(right)}"
            yield f"{word!r} compares objects, not values: {meant!r} does", hint
        if isinstance(sign, ast.In | ast.NotIn) and is_column(left):
            yield (
                "'in' does not look at each value of a column",
                "write a comparison for each: (x == a) | (x == b)",
            )


def _asks_for_none(sides: list[ast.expr], is_column: Callable[[ast.expr], bool]) -> bool:
    """Whether a value of the workflow is compared with ``None``, ``True`` or ``False``."""
    single = any(
        isinstance(one, ast.Constant) and (one.value is None or isinstance(one.value, bool))
        for one in sides
    )
    return single and not any(map(is_column, sides))


def _first_event(
    node: ast.Subscript, functions: Mapping[str, object]
) -> Iterator[tuple[str, str | None]]:
    """Find ``Muon_pt[0]``, where the first muon of each event is meant."""
    try:
        number = ast.literal_eval(node.slice)
    except ValueError:
        return
    if type(number) is int:
        value = ast.unparse(node.value)
        first = "leading" in functions and number == 0
        meant = f"leading({value})" if first else f"nth({value}, {number})"
        yield (
            f"[{number}] takes one event of the partition, not one object of each event",
            f"write {meant}" if number >= 0 and "nth" in functions else None,
        )


def _values_of(
    node: ast.Call, name: str, function: Callable[..., object] | None
) -> Iterator[tuple[str, str | None]]:
    """Find a function that is given too many values, too few, or one that it does not take."""
    words = [one.arg for one in node.keywords]
    if function is None or None in words or any(isinstance(one, ast.Starred) for one in node.args):
        return
    given, hint = len(node.args), f"write {_shown(name, function)}"
    if isinstance(function, np.ufunc):
        if given != function.nin:
            yield f"{name} takes {_counted(function.nin)}, not {given}", hint
        elif unknown := next((one for one in words if one not in _OF_UFUNC), None):
            yield f"{name} has no parameter {unknown}", hint
        return
    if function is np.where:  # of a condition alone it would make the numbers of the events
        if given + len(words) != _OF_WHERE:
            problem = f"where takes {_counted(_OF_WHERE)}, not {given + len(words)}"
            yield problem, "write where(condition, this, that)"
        return
    try:
        inspect.signature(function).bind(*node.args, **dict.fromkeys(map(str, words)))
    except ValueError:  # it does not say what it takes
        return
    except TypeError as error:
        yield f"{name} cannot be called with these values: {error}", hint


def _counted(number: int) -> str:
    return f"{number} value{'' if number == 1 else 's'}"


def _shown(name: str, function: Callable[..., object] | None) -> str:
    """Return how a function is called."""
    return f"{name}(…)" if function is None else called_as(name, function)
