"""Expressions that FAST-HEP evaluates without an error, and otherwise than they are meant."""

from __future__ import annotations

import pytest

from fasthep_smk.flow.expression_rules import Names, Reading, unknown_function

FUNCTIONS = {
    **{name: f"numpy:{name}" for name in ("abs", "sqrt", "where", "isnan", "logical_not")},
    **{name: f"awkward:{name}" for name in ("num", "any", "fill_none")},
    "leading": "fasthep_carpenter.expr_helpers:leading",
    "own": "mine:own",
}
NAMES = Names(
    FUNCTIONS,
    {
        "dataset_name": ("dy", "ttbar", "run2018"),
        "dataset_group": ("boson", None, "top"),
        "dataset_eventtype": ("mc", "mc", "data"),
        "dataset_is_data": (True, False),
        "dataset_xs": (),
        "min_pt": (20,),
        "year": (2018,),
        "tight": (True,),
        "signals": (["dy"],),
    },
)


def problem(text: str, *, is_condition: bool = False) -> str:
    first = next(Reading(text, NAMES, is_condition=is_condition).problems(), None)
    return "" if first is None else " | ".join(filter(None, first))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("pt > 20 & good", "20 & good"),
        ("pt > 20 | good", "20 | good"),
        ("pt > 20 ^ good", "20 ^ good"),
        ("pt > 20 && n == 1 | good", "1 | good"),
        ("pt > min_pt & good", "min_pt & good"),
        ("pt == -1 & good & tight", "-1 & good & tight"),
        ("n == 2 & good", "2 & good"),
        ("n == other & good", "other & good"),
        ("n != 0 & (pt > 20)", "0 & (pt > 20)"),
        ("pt > 20 & n > 1", "20 & n"),
        ("where(µ > 20 & good, 1, 0)", "20 & good"),
        ("(pt >  # GeV\n20 &\n good)", "20 & good"),
        ("own(pt) > 20 & good", "20 & good"),
        ("dataset_xs > 3 & tight", "3 & tight"),
        ("good & n > 2", "good & n"),
        ("good & n > 0", "good & n"),
        ("good & n == 0", "good & n"),
        ("(pt > 20) & n == 2", "(pt > 20) & n"),
        ("~good & n != 1", "~good & n"),
        ("own(pt) & n > 1", "own(pt) & n"),
        ("dataset_is_data & n > 1", "dataset_is_data & n"),
        ("good & 1 < n", "good & 1"),
        ("1 < n & good", "n & good"),
    ],
)
def test_a_sign_that_takes_what_belongs_to_a_comparison_is_told(text: str, read: str) -> None:
    assert f"than a comparison: this compares with ({read})" in problem(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("~n > 1", "'~' binds more strongly"),
        ("1 < ~n", "'~' binds more strongly"),
        ("~n == 0", "'~' binds more strongly"),
        ("where(~(dataset_name == 'dy'), 2, 1)", "'~' of a single condition gives -1 or -2"),
        ("w * ~dataset_is_data", "'~' of a single condition"),
        ("w * ~tight", "'~' of a single condition"),
        ("n^2", "'^' is not a power: use '**' | write ** 2"),
        ("(n + 1)^2", "'^' is not a power"),
        ("n^-0.5", "'^' is not a power"),
        ("min_pt^2", "'^' is not a power"),
        ("pt > 10^3", "'^'"),
        ("x ** 1/2", "'**' binds more strongly than '/'"),
        ("abs(eta < 2.4)", "abs is applied to a comparison"),
        ("abs((eta < 2.4) & good)", "abs is applied to a comparison"),
        ("(pt > 1) & sqrt(~(eta < 2))", "sqrt is applied to a comparison"),
        ("num(pt > 20, axis=1) > 1", "num is applied to a comparison"),
        ("where(pt > 20)", "where with only a condition"),
        ("pt[0]", "[0] selects one event"),
        ("w * leading(pt)[-1]", "[-1] selects one event"),
        ("(pt > 20)[0, :]", "[0] selects one event"),
        ("pt[:1]", "[:1] selects one event"),
        ("pt[good][1:, 0]", "[1:] selects one event"),
        ("[pt]", "[pt] would give each event the values of all events"),
        ("w * pt,", "(w * pt,) would give each event the values of all events"),
        ("f'{pt}'", "the values of all events"),
        ("{'a': pt}", "the values of all events"),
        ("pt is None", "'is' compares objects"),
        ("2 if dataset_name is 'dy' else 1", "'is' compares objects"),
        ("where(2 in n, 1, 0)", "'in' gives one answer for all events"),
        ("where(dataset_name == 'dy' or 'ttbar', 2, 1)", "'or 'ttbar'' is not a comparison"),
        ("n == (1 or 2)", "'or 2' is not a comparison"),
        ("(pt > 20) + (n > 1) + (eta < 2) >= 2", "'+' of two conditions gives true or false"),
        ("1 > 0", "names no column"),
        ("dataset_name == 'tbtar'", "dataset_name 'tbtar' | did you mean 'ttbar'?"),
        ("'MC' == dataset_eventtype", "did you mean 'mc'?"),
        ("dataset_group not in ('bosn', 'top')", "did you mean 'boson'?"),
        ("'tbtar' in dataset_name", "did you mean 'ttbar'?"),
        ("{'tbtar': 2}.get(dataset_name, 1)", "did you mean 'ttbar'?"),
        ("year == '2018'", "year is 2018: it is never equal to '2018'"),
        ("dataset_name != 2018", "dataset_name is 'dy': it is never equal to 2018"),
    ],
)
def test_what_changes_numbers_without_an_error_is_told(text: str, told: str) -> None:
    assert told in problem(text)


@pytest.mark.parametrize(
    "text",
    [
        "(pt > 20) & ~(n > 1) | (abs(eta) < 3)", "n & 4 > 0", "0 < n & 4", "n & 3 == 3",
        "n & ~4 != 0", "n & min_pt > 0", "n & mask == mask", "n == other & n", "n < 1 | 2",
        "(good & n) > 2", "(1 <\n(good &\n n))", "~n < -2", "(~n) > 1", "~good == True",
        "~(pt > 2) == good", "x ** (1/2)", "abs(eta) < 2.4", "pt[()]",
        "n & ~min_pt", "(n ^ 0x2) + (n ^ 0b10) + (2 ^ n) + ((n & 7) ^ 1)",
        "((n > 2) ^ 1) * (~n ^ 1)", "isnan(pt) & logical_not(pt > 20)", "any(pt > 3, axis=1)",
        "(pt > 2) + (n > 1) > 0", "2 * (pt > 2) + (n > 1) == 3",
        "leading(pt > 20)", "num(pt[pt > 20])", "where(pt > 3, True, False)", "own(pt > 20)",
        "pt[:, 0]", "pt[good][:, :2]", "pt[:]", "jets['pt']", "jets.pt", "dataset_xs[0]",
        "own(pt)[0]", "own([pt, eta], names=(pt, n))", "{'dy': pt}[dataset_name]",
        "(pt, eta)[tight]", "{'dy': pt}.get(dataset_name, eta)",
        "scale[f'{dataset_name}_up'] * pt", "(w)",
        "pt if dataset_xs is None else pt * 2", "pt if tight is not True else -pt",
        "(dataset_xs or 1.0) * w", "w * (dataset_name == 'dy' and 2 or 1)", "tight and pt > 3",
        "dataset_name in ('wjets', 'ttbar1', 'ttbars', 'ttbar', 'd', 'run2017')",
        "dataset_name in {'dy', 'ttbar'}", "'tba' in dataset_name", "dataset_name > 'a'",
        "'wjets' in signals", "year == 2018.0", "dataset_group is None", "dataset_group == None",
        "trigger == 'HLT_Mu24'", "0 < min_pt < pt", "(pt > 3) & (tight and n == 1 or not tight)",
    ],
)  # fmt: skip
def test_what_an_expression_can_mean_is_left_alone(text: str) -> None:
    assert problem(text) == ""


def test_a_difference_is_no_condition() -> None:
    assert problem("pt - 20", is_condition=True) == "makes a number, not a condition"
    assert problem("pt - 20 > 0", is_condition=True) == ""
    assert problem("good * tight_muon", is_condition=True) == ""
    assert problem("pt - 20") == ""


@pytest.mark.parametrize(
    ("text", "name"),
    [("pt > 1 && max(pt, eta) > 2", "max"), ("np.sqrt(pt)", "np.sqrt"), ("own(f(pt))", "f")],
)
def test_a_function_that_there_is_not_is_named(text: str, name: str) -> None:
    told = unknown_function(text, {"functions": FUNCTIONS})
    assert told is not None
    assert told.startswith(f"there is no function {name!r}: choose from abs, sqrt, ")


def test_a_function_that_is_nearly_one_is_that_one() -> None:
    told = unknown_function("sqr(pt)", {"functions": FUNCTIONS})
    assert told == "there is no function 'sqr': did you mean 'sqrt'?"


@pytest.mark.parametrize("text", ["sqrt(pt)", "pt.sum()", "{'dy': 2}.get(dataset_name)", "pt >"])
def test_other_expressions_name_no_unknown_function(text: str) -> None:
    assert unknown_function(text, {"functions": FUNCTIONS}) is None
