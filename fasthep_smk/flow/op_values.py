"""Findings about values of parameters with which one of FAST-HEP's operations fails in each job."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import numpy as np

from fasthep_smk.flow.places import mapping
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, not_among
from fasthep_smk.util.yaml_values import as_yaml

__all__ = ["text_findings", "value_findings"]

#: Some of numpy's types, to be named in messages.
_DTYPES = ("float32", "float64", "int32", "int64", "bool")
#: What names the cuts that a group of cuts begins with: the first counts.
_PARENTS = ("parents", "from", "parent")
#: What selects objects, pairs or events by expressions.
_SELECT = (
    "hep.build_lepton_met_candidate",
    "hep.build_pairs",
    "hep.build_recoil",
    "hep.di_object_mass",
    "hep.select_objects",
    "hep.selection.flag",
)
_BITS = ast.BitAnd | ast.BitOr | ast.BitXor
#: What makes numbers of any columns, flags as well: + and * of flags are flags.
_ARITHMETIC = ast.Sub | ast.Div | ast.FloorDiv | ast.Mod | ast.Pow


def value_findings(stage: YamlMapping, key: str, *, workflow: str) -> list[Finding]:
    """Return what is wrong with the values of a stage, whose key is ``key``."""
    params = mapping(stage.get("params"))
    found: list[Finding] = []
    if stage.get("op") == "hep.selection.cutflow":
        selection = mapping(params.get("selection"))
        found += _of_cuts(params.get("selection"), f"{key}.params.selection", workflow)
        for name in selection:
            found += _of_parents(name, selection, f"{key}.params.selection.{name}", workflow)
    if stage.get("op") in _SELECT:
        for word in ("selection", "mask"):
            found += _of_selection(params.get(word), f"{key}.params.{word}", workflow)
    if stage.get("op") == "hep.weights.lookup_csv":
        found += _of_labels(params, f"{key}.params", workflow)
    if stage.get("op") == "hep.define":
        listed = params.get("variables")
        for number, variable in enumerate(listed if isinstance(listed, list) else ()):
            place = f"{key}.params.variables[{number}]"
            if mapping(variable).get("matrix") is None:  # which fills in what stands in braces
                found += _of_dtype(mapping(variable).get("dtype"), place, workflow)
            found += _of_content(variable, place, workflow)
            found += _of_name(mapping(variable).get("name"), f"{place}.name", workflow)
    return found


def _of_cuts(selection: object, key: str, workflow: str) -> Iterator[Finding]:
    """Yield selections, and groups of cuts, without any cut; and cuts that are the same for all."""
    nothing = "holds no cut: every event would pass"
    if selection == {}:
        expected = "groups of cuts by their names"
        yield Finding(file=workflow, key=key, problem=nothing, value="{}", expected=expected)
    for name, group in mapping(selection).items():
        place, steps = f"{key}.{name}", group
        for word in ("cuts", "steps"):
            if word in mapping(group):
                place, steps = f"{key}.{name}.{word}", mapping(group)[word]
        if steps == []:
            expected = "a list of cuts"
            yield Finding(file=workflow, key=place, problem=nothing, value="[]", expected=expected)
        for number, step in enumerate(steps if isinstance(steps, list) else ()):
            within = ".expr" if isinstance(step, dict) else ""
            text = mapping(step).get("expr") if within else step
            yield from _of_content(step, f"{place}[{number}]", workflow)
            problem = _no_condition(text) if isinstance(text, str) else None
            if problem is not None:
                yield Finding(
                    file=workflow,
                    key=f"{place}[{number}]{within}",
                    problem=problem,
                    value=str(text),
                    expected="a condition on a column, such as MET > 20",
                )


def _of_selection(held: object, key: str, workflow: str) -> Iterator[Finding]:
    """Yield expressions that make numbers where objects are selected: they would be positions."""
    steps: list[tuple[str, object]] = []
    if isinstance(held, dict):
        steps = [(f"{key}.{name}", below) for name, below in held.items()]
    elif isinstance(held, list):
        steps = [(f"{key}[{number}]", below) for number, below in enumerate(held)]
    for place, below in steps:
        yield from _of_selection(below, place, workflow)
    problem = _no_condition(held) if isinstance(held, str) else None
    if problem is not None:
        yield Finding(
            file=workflow,
            key=key,
            problem=problem,
            value=str(held),
            expected="a condition, such as pt > 20; of bits, (id & 2) != 0",
        )


def _no_condition(text: str) -> str | None:
    """Return why a cut is no condition."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return None  # the compiler says what is wrong with it
    parts = list(ast.walk(tree))
    compares = any(isinstance(part, ast.Compare) for part in parts)
    if compares and not any(isinstance(part, ast.Name) for part in parts):
        return "names no column: it is the same for every event"
    return "makes a number, not a condition" if _is_number(tree.body) else None


def _is_number(node: ast.expr) -> bool:
    """Whether a part makes a number of any columns: ``a / b``, ``bits & 2``, ``(x > 1) & 2``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, _BITS):
        sides = (node.left, node.right)
        return any(_is_number(one) or _is_whole(one) for one in sides)
    return isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC)


def _is_whole(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _of_content(entry: object, key: str, workflow: str) -> Iterator[Finding]:
    """Yield a variable or cut that says neither by an expression nor by a reduction what it is."""
    held = mapping(entry)
    if isinstance(entry, dict) and held.get("expr") is None and held.get("reduce") is None:
        yield Finding(
            file=workflow,
            key=f"{key}.expr",
            problem="is missing, and reduce as well",
            expected="expr: an expression; or reduce: {op: …, over: …}",
        )


def _of_name(name: object, key: str, workflow: str) -> Iterator[Finding]:
    """Yield a column whose name begins or ends with a blank: no expression can name it."""
    if isinstance(name, str) and name.strip() != name:
        yield Finding(
            file=workflow,
            key=key,
            problem="begins or ends with a blank",
            value=as_yaml(name),
            hint=f"write {name.strip()!r}",
        )


def text_findings(stage: YamlMapping, key: str, *, workflow: str) -> Iterator[Finding]:
    """Yield the definitions of a stage whose text the compiler refuses without their place."""
    if stage.get("op") == "hep.define":
        listed = mapping(stage.get("params")).get("variables")
        for number, variable in enumerate(listed if isinstance(listed, list) else ()):
            place = f"{key}.params.variables[{number}].expr"
            yield from _of_expr(mapping(variable).get("expr"), place, workflow)


def _of_labels(params: YamlMapping, key: str, workflow: str) -> Iterator[Finding]:
    """Yield weights for which no column of the table is named: each job would fail."""
    values = mapping(params.get("values"))
    for label in mapping(params.get("outputs")):
        if label not in values and not str(label).startswith("x-"):
            yield not_among(
                label,
                map(str, values),
                problem="values has no entry of this name",
                file=workflow,
                key=f"{key}.outputs.{label}",
            )


def _of_expr(expr: object, key: str, workflow: str) -> Iterator[Finding]:
    """Yield numbers and indented texts: no expressions to FAST-HEP."""
    if isinstance(expr, int | float):
        hint = f"write {str(expr)!r}, in quotes"
        problem, value = "is no text", repr(expr)
        yield Finding(file=workflow, key=key, problem=problem, value=value, hint=hint)
    elif isinstance(expr, str) and expr.strip() and expr[0] in " \t":
        hint = f"write {expr.strip()!r}"
        problem = "begins with a blank"
        yield Finding(file=workflow, key=key, problem=problem, value=as_yaml(expr), hint=hint)


def _of_dtype(dtype: object, key: str, workflow: str) -> Iterator[Finding]:
    """Yield a type of numbers that numpy does not know: each job would fail."""
    try:
        np.dtype(str(dtype if dtype is not None else "float64"))
    except TypeError:
        yield not_among(
            dtype,
            _DTYPES,
            problem="is no type of numbers",
            file=workflow,
            key=f"{key}.dtype",
        )


def _of_parents(name: str, selection: YamlMapping, key: str, workflow: str) -> Iterator[Finding]:
    """Yield parents of a group of cuts that are no cut of a group before it."""
    group = mapping(selection[name])
    written = next((one for one in _PARENTS if one in group), None)
    known: list[str] = []
    for other, held in selection.items():
        if other == name:
            break
        steps = held if isinstance(held, list) else mapping(held).get("steps")
        steps = mapping(held).get("cuts") if steps is None else steps
        known += [f"{other}[{n}]" for n in range(len(steps) if isinstance(steps, list) else 0)]
    parents = group.get(written or "")
    for parent in parents if isinstance(parents, list) else [parents]:
        if isinstance(parent, str) and parent and parent not in known:
            problem = "no group before this one has such a cut"
            place = f"{key}.{written}"
            yield not_among(parent, known, problem=problem, file=workflow, key=place)
