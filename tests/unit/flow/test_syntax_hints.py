"""What is said of expressions that Python cannot read."""

from __future__ import annotations

import pytest

from fasthep_smk.flow.syntax_hints import syntax_findings


def said(text: str) -> list[str]:
    stage = {"op": "hep.define", "params": {"variables": [{"name": "x", "expr": text}]}}
    found = syntax_findings(stage, "here", ["abs"], workflow="w.yaml")
    return [f"{one.problem}; {one.hint}" for one in found]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("!good", "'!' does not negate a column: '~' does; write ~(…)"),
        ("n <> 2", "'<>' does not compare: '!=' does; write !="),
        ("n = 2", "'=' does not compare: '==' does; write =="),
        ("n => 2", "'=>' does not compare: '>=' does; write >="),
        ("n ≥ 2", "'≥' is no sign of an expression: '>=' is; write >="),
        ("a AND b", "'AND' does not combine columns: '&' does; write (a > 1) & (b < 2)"),
        ("n > 1 ? 1 : 0", "'? :' does not choose: where does; write where(condition, this, that)"),
        ("pt > 20 GeV", "an expression has no units; leave the unit out"),
        ("TMath::Abs(x)", "an expression has no namespaces; write abs(…)"),
        ("n > 05", "a number does not begin with 0; leave the 0 out"),
        ("2pt > 5", "no name begins with a digit; put * after it"),
        ("(n > 2", "'(' was never closed at '(n > 2'; None"),
    ],
)
def test_what_was_meant(text: str, problem: str) -> None:
    assert said(text) == [f"is not an expression: {problem}"]


@pytest.mark.parametrize(
    "text",
    ["a && b || c", " n > 2", "name == 'a = b ! <>'", "1e5 > n", "W_{side} {x}", "where(c, a, b)"],
)
def test_what_is_an_expression_or_becomes_one(text: str) -> None:
    assert said(text) == []


def test_all_cuts_are_read() -> None:
    selection = {"A": ["a > ", {"expr": "!b"}], "B": {"steps": ["c <> 1"]}}
    stage = {"op": "hep.selection.cutflow", "params": {"selection": selection}}
    found = syntax_findings(stage, "stage", [], workflow="w.yaml")
    start = "stage.params.selection."
    assert [one.key for one in found] == [
        f"{start}A[0]",
        f"{start}A[1].expr",
        f"{start}B.steps[0]",
    ]
