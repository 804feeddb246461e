"""Every message says which file, which key, what was found, what was expected, what to do."""

from __future__ import annotations

import pytest

from fasthep_smk.util.errors import Finding, Findings, RunFailed, SmkError, UsageError, nearest


def test_the_nearest_name_is_the_one_that_was_meant() -> None:
    assert nearest("hep.hst", ["hep.define", "hep.hist", "hep.choose"]) == "hep.hist"


def test_no_name_is_suggested_where_none_is_near() -> None:
    assert nearest("banana", ["hep.define", "hep.hist"]) is None
    assert nearest("banana", []) is None


def test_names_need_not_be_text() -> None:
    assert nearest(2018, [2017, 1]) == "2017"  # type: ignore[arg-type, list-item]


def test_a_finding_says_where_what_and_how_to_mend_it() -> None:
    finding = Finding(
        file="workflow.yaml",
        key="Hist: op",
        problem="no op of this name is registered",
        value="'hep.hst'",
        expected="a registered name, such as 'hep.hist'",
        hint="registered by a profile",
    )
    assert str(finding).splitlines() == [
        "workflow.yaml: Hist: op: no op of this name is registered",
        "    found: 'hep.hst'",
        "    expected: a registered name, such as 'hep.hist'",
        "    hint: registered by a profile",
    ]


def test_what_is_not_known_is_left_out() -> None:
    assert str(Finding(problem="is a folder")) == "is a folder"
    assert str(Finding(file="a.root", problem="is empty")) == "a.root: is empty"
    assert str(Finding(key="--outdir", problem="is a file")) == "--outdir: is a file"


def test_findings_are_counted_and_listed() -> None:
    one = Findings.one("does not exist", file="a.yaml", hint=None)
    assert str(one) == "1 problem:\n- a.yaml: does not exist"
    two = Findings([Finding(problem="first"), Finding(problem="second")])
    assert str(two) == "2 problems:\n- first\n- second"


def test_equal_findings_are_equal() -> None:
    assert Finding(problem="x", file="a") == Finding(problem="x", file="a")
    assert len({Finding(problem="x"), Finding(problem="x")}) == 1


@pytest.mark.parametrize(
    ("error", "status"), [(Findings.one("x"), 1), (RunFailed("x"), 1), (UsageError("x"), 2)]
)
def test_the_exit_status_tells_a_failure_from_wrong_usage(error: SmkError, status: int) -> None:
    assert error.exit_code == status
    assert isinstance(error, SmkError)
