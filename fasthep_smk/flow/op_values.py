"""Findings about values of parameters with which one of FAST-HEP's operations fails in each job."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import numpy as np

from fasthep_smk.flow.places import mapping
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, not_among

__all__ = ["text_findings", "value_findings"]

#: Some of numpy's types, to be named in messages.
_DTYPES = ("float32", "float64", "int32", "int64", "bool")
#: What names the cuts that a group of cuts begins with: the first counts.
_PARENTS = ("parents", "from", "parent")


def value_findings(stage: YamlMapping, key: str, *, workflow: str) -> list[Finding]:
    """Return what is wrong with the values of a stage, whose key is ``key``."""
    params = mapping(stage.get("params"))
    found: list[Finding] = []
    if stage.get("op") == "hep.selection.cutflow":
        selection = mapping(params.get("selection"))
        found += _of_cuts(params.get("selection"), f"{key}.params.selection", workflow)
        for name in selection:
            found += _of_parents(name, selection, f"{key}.params.selection.{name}", workflow)
    if stage.get("op") == "hep.weights.lookup_csv":
        found += _of_labels(params, f"{key}.params", workflow)
    if stage.get("op") == "hep.define":
        listed = params.get("variables")
        for number, variable in enumerate(listed if isinstance(listed, list) else ()):
            place = f"{key}.params.variables[{number}]"
            found += _of_dtype(mapping(variable).get("dtype"), place, workflow)
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
            if isinstance(text, str) and _is_constant_cut(text):
                yield Finding(
                    file=workflow,
                    key=f"{place}[{number}]{within}",
                    problem="names no column: it is the same for every event",
                    value=text,
                    expected="a condition on a column, such as MET > 20",
                )


def _is_constant_cut(text: str) -> bool:
    """Whether a cut compares mere constants; ``True`` is the way to count all events."""
    try:
        parts = list(ast.walk(ast.parse(text.strip(), mode="eval")))
    except (SyntaxError, ValueError):
        return False  # the compiler says what is wrong with it
    compares = any(isinstance(part, ast.Compare) for part in parts)
    return compares and not any(isinstance(part, ast.Name) for part in parts)


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
        yield Finding(file=workflow, key=key, problem=problem, value=repr(expr), hint=hint)


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
