"""What to write for a function that people know from Python, numpy or ROOT, and FAST-HEP has not.

The nearest name is no help there: sinh is not cosh.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from fasthep_smk.util.errors import nearest

__all__ = ["instead_of"]

#: Functions that are an expression of others; ``{0}`` and ``{1}`` are their values.
_WRITTEN = {
    "pow": "{0} ** {1}", "power": "{0} ** {1}", "square": "{0} ** 2", "sq": "{0} ** 2",
    "fabs": "abs({0})", "absolute": "abs({0})", "ln": "log({0})", "log2": "log({0}) / log(2)",
    "log1p": "log(1 + {0})", "expm1": "exp({0}) - 1", "cbrt": "{0} ** (1 / 3)",
    "hypot": "sqrt({0} ** 2 + {1} ** 2)", "max": "where({0} > {1}, {0}, {1})",
    "min": "where({0} < {1}, {0}, {1})", "maximum": "where({0} > {1}, {0}, {1})",
    "minimum": "where({0} < {1}, {0}, {1})", "logical_and": "({0}) & ({1})",
    "logical_or": "({0}) | ({1})", "logical_not": "~({0})", "first": "leading({0})",
    "iif": "where({0}, {1}, {2})",
}  # fmt: skip
#: Functions of numpy, by the names that they have there, in Python's math and in ROOT.
_OF_NUMPY = {
    name: name
    for name in (
        *("sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "sinh", "tanh", "arcsinh"),
        *("arccosh", "arctanh", "floor", "ceil", "rint", "sign", "isnan", "isfinite"),
        *("deg2rad", "rad2deg", "exp2"),
    )
}
_OF_NUMPY |= {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh", "round": "rint", "nint": "rint", "fmod": "mod",
    "radians": "deg2rad", "degrees": "rad2deg",
}  # fmt: skip
#: Functions that count or combine the objects of an event, and awkward's name of each.
_OF_OBJECTS = {
    "sum": "sum", "prod": "prod", "mean": "mean", "average": "mean", "max": "max", "min": "min",
    "argmax": "argmax", "argmin": "argmin", "std": "std",
}  # fmt: skip
#: What needs no brackets beside a sign, and brackets that stand twice.
_ATOM = re.compile(r"[\w.]+")
_DOUBLE = re.compile(r"\(\(([^()]*)\)\)")
_TYPES = ("int", "float", "bool", "str", "double", "astype")
_COUNTS = ("len", "size", "num", "count", "length", "count_nonzero", "any", "all")


def instead_of(name: str, arguments: Iterable[ast.expr], functions: Iterable[str]) -> str:
    """Return what to write for a function of this name and these arguments.

    ``functions`` are those that there are.
    """
    name, given, functions = name.lower(), [*map(ast.unparse, arguments)], list(functions)
    if name in functions:
        return f"write {name}({', '.join(given) or '…'})"
    if name in _TYPES:
        return "beside the name of a variable of hep.define, dtype: says of which type it is"
    if written := _written(name, given):
        return f"write {written}"
    given = given or ["x"]
    if name in _COUNTS:
        op = name if name in ("any", "all") else "count_nonzero"
        over = given[0]
        counted = f'in hep.define, reduce: {{op: {op}, over: "{over}"}} makes a column of it'
        if op == "count_nonzero" and name != op:
            counted += f"; of all objects: write num({given[0]}), and "
            counted += _registered("num", "awkward:num")
        return counted
    if name in _OF_OBJECTS:
        own = _OF_OBJECTS[name]
        call = f"{own}({given[0]}, axis=1)"
        # Of an event without objects there is none.
        call = call if own in ("sum", "prod") else f"fill_none({call}, 0)"
        return f"write {call}, and " + _registered(own, f"awkward:{own}")
    if name in _OF_NUMPY:
        own = _OF_NUMPY[name]
        return f"write {own}({', '.join(given)}), and " + _registered(own, f"numpy:{own}")
    close = nearest(name, functions, cutoff=0.7)
    known = ", ".join(sorted(functions))
    return (
        f"did you mean {close!r}?"
        if close
        else f"functions: {known}; others go into registry.functions"
    )


def _written(name: str, given: list[str]) -> str | None:
    form = _WRITTEN.get(name, "")
    wanted = sum(f"{{{number}}}" in form for number in range(3))
    given = given or list("abc")[:wanted]
    if not form or len(given) != wanted:
        return None
    written = form.format(*(one if _ATOM.fullmatch(one) else f"({one})" for one in given))
    return _DOUBLE.sub(r"(\1)", written)


def _registered(name: str, reference: str) -> str:
    return f"say registry: {{functions: {{{name}: '{reference}'}}}} in the workflow"
