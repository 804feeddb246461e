"""Forms of Python's that no expression of columns can mean, and those that it can."""

from __future__ import annotations

import ast

import awkward as ak
import numpy as np
import pytest

from fasthep_smk.flow.expression_forms import odd_forms


def nth(values: object, index: int, default: float = 0.0) -> None: ...


FUNCTIONS = {"sqrt": np.sqrt, "where": np.where, "nth": nth, "leading": nth, "any": ak.any}
SCALARS = ("dataset_name", "dataset_xs")


def found(text: str) -> list[tuple[str, str | None]]:
    tree = ast.parse(text, mode="eval")

    def is_column(node: ast.expr) -> bool:
        names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        return bool(names - set(FUNCTIONS) - set(SCALARS))

    return list(odd_forms(tree, FUNCTIONS, is_column))


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("pt[0]", "[0] takes one event of the partition", "write leading(pt)"),
        ("pt[1] > 2", "[1] takes one event of the partition", "write nth(pt, 1)"),
        ("pt[-1]", "[-1] takes one event of the partition", None),
        ("sqrt(pt, 2)", "sqrt takes 1 value, not 2", "write sqrt(x)"),
        ("sqrt()", "sqrt takes 1 value, not 0", "write sqrt(x)"),
        ("sqrt(pt, x=3)", "sqrt has no parameter x", "write sqrt(x)"),
        ("sqrt", "sqrt is a function, and is not called", "write sqrt(x)"),
        ("pt * sqrt", "sqrt is a function, and is not called", "write sqrt(x)"),
        ("where(pt > 3)", "where takes 3 values, not 1", "write where(condition, this, that)"),
        ("where(pt > 3, 1)", "where takes 3 values, not 2", "write where(condition, this, that)"),
        (
            "nth(pt)",
            "nth cannot be called with these values: missing a required argument: 'index'",
            None,
        ),
        (
            "nth(pt, 1, 2, 3)",
            "nth cannot be called with these values: too many positional arguments",
            None,
        ),
        ("dataset_name is 'dy'", "'is' compares objects", "write dataset_name == 'dy'"),
        ("pt is not None", "'is not' compares objects", "write pt != None"),
        ("pt in (20, 30)", "'in' does not look at each value", None),
        ("f'{pt}'", "a text with values in it (f'…') makes no column", None),
        ("[x for x in pt]", "a loop (for … in …)", None),
        ("lambda x: x", "a function of its own (lambda)", None),
        ("{pt}", "braces make a set of it", "write round brackets"),
        ("{'a': pt}", "a mapping", None),
        ("pt @ n", "'@' does not multiply columns: '*' does", None),
        ("(x := pt)", "an assignment (:=)", None),
    ],
)
def test_a_form_that_no_column_has_is_told(text: str, problem: str, hint: str | None) -> None:
    (said, written), *_ = found(text)
    assert problem in said
    assert hint is None or written == hint


@pytest.mark.parametrize(
    "text",
    [
        "pt[:, 0]",
        "pt[good]",
        "pt[good][:, :2]",
        "jets['pt']",
        "jets.pt",
        "dataset_name in ('dy', 'ttbar')",
        "dataset_name in {'dy', 'ttbar'}",
        "dataset_xs[0]",
        "where(pt > 3, 1, 0)",
        "where(pt > 3, x=1, y=0)",
        "sqrt(pt, dtype='f8')",
        "nth(pt, 1, default=-1)",
        "any(pt > 3, axis=1)",
        "trigger == 'HLT_Mu24'",
        "era == '2018'",
        "sqrt(*pts)",
        "own(pt, sqrt)",
        "own(pt, by=sqrt)",
        "{'dy': 1.5, 'ttbar': 2.0}[dataset_name] * pt",
        "{'dy': 1.5}.get(dataset_name, 1.0) * pt",
        "own({'a': 1}, pt)",
        "scale[f'{dataset_name}_up'] * pt",
        "pt if f'{dataset_name}' == 'dy' else -pt",
        "pt if dataset_xs is None else pt * 2",
        "pt if dataset_xs is not True else pt * 2",
    ],
)
def test_what_an_expression_can_mean_is_left_alone(text: str) -> None:
    assert found(text) == []
