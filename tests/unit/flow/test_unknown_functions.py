"""What is proposed for functions that FAST-HEP does not have."""

from __future__ import annotations

import ast

import pytest

from fasthep_smk.flow.unknown_functions import instead_of

FUNCTIONS = ("abs", "cosh", "exp", "fill_none", "leading", "log", "nth", "sqrt", "where")


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("pow(MET - 1, 2)", "write (MET - 1) ** 2"),
        ("fabs(MET - 1)", "write abs(MET - 1)"),
        ("log2(MET)", "write log(MET) / log(2)"),
        ("max(MET, 20)", "write where(MET > 20, MET, 20)"),
        ("logical_not(MET > 20)", "write ~(MET > 20)"),
        ("ABS(MET)", "write abs(MET)"),
        ("sqr(MET)", "did you mean 'sqrt'?"),
        (
            "sinh(MET)",  # is not cosh
            "write sinh(MET), and say registry: {functions: {sinh: 'numpy:sinh'}} in the workflow",
        ),
        (
            "atan2(y, x)",
            "write arctan2(y, x), and say registry: {functions: {arctan2: 'numpy:arctan2'}} in the "
            "workflow",
        ),
        (
            "sum(Jet_pt)",
            "write sum(Jet_pt, axis=1), and say registry: {functions: {sum: 'awkward:sum'}} in the "
            "workflow",
        ),
        (
            "max(Jet_pt)",
            "write fill_none(max(Jet_pt, axis=1), 0), and say registry: {functions: {max: "
            "'awkward:max'}} in the workflow",
        ),
        (
            "len(Jet_pt)",
            'in hep.define, reduce: {op: count_nonzero, over: "Jet_pt"} makes a column of it; of '
            "all objects: write num(Jet_pt), and say registry: {functions: {num: 'awkward:num'}} "
            "in the workflow",
        ),
        ("any(good)", 'in hep.define, reduce: {op: any, over: "good"} makes a column of it'),
    ],
)
def test_what_to_write(call: str, hint: str) -> None:
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    assert instead_of(ast.unparse(node.func), node.args, FUNCTIONS) == hint


def test_a_function_like_no_other_is_answered_with_all() -> None:
    hint = instead_of("deltaR", (), FUNCTIONS)
    assert hint == f"functions: {', '.join(FUNCTIONS)}; others go into registry.functions"
