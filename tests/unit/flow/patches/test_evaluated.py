"""A weight that is a list of values is refused, and each weight is evaluated once."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import awkward as ak
import numpy as np
import pytest

from fasthep_smk.flow import upstream
from fasthep_smk.flow.column_types import UnfitColumn
from fasthep_smk.flow.patches import evaluated as patch
from fasthep_smk.flow.patches.evaluated import forget_evaluated, look_at_inputs

EVENTS = ak.Array(
    {"MET": [1.0, 2.0, 3.0], "Weight": [1.0, 1.0, 2.0], "Pt": [[1.0, 2.0], [], [3.0]]}
)


def hist(weight: str, axis: str = "MET", **more: object) -> dict[str, object]:
    bins = {"nbins": 2, "low": 0.0, "high": 4.0}
    axes: list[object] = [{"name": "x", "source": axis, "type": "regular", "bins": bins}]
    if "variations" in more:
        axes.append({"name": "variation", "source": "__variation__", "type": "category"})
    return {"axes": axes, "storage": "weighted", "weight_expr": weight, **more}


def cutflow(weight: str) -> dict[str, object]:
    return {"selection": {"All": ["MET > 0"]}, "weight_expr": weight}


def begin(
    impl: str, params: dict[str, object], events: Any, ctx: dict[str, Any], *, share: bool = True
) -> None:
    node = SimpleNamespace(id="stage.A", role="transform", impl=impl, params=params)
    look_at_inputs(node, {"stream": events}, ctx, share=share)  # type: ignore[arg-type]


def run(impl: str, params: dict[str, object], **functions: Callable[..., object]) -> Any:
    """Run an operation as a job does, with more functions for its expressions."""
    return run_on(EVENTS, impl, params, functions)


def run_on(
    events: ak.Array,
    impl: str,
    params: dict[str, object],
    more: dict[str, Any],
    *,
    share: bool = True,
) -> Any:
    ctx = {"primary_stream": "events", "node_id": "stage.A", **more}
    begin(impl, params, events, ctx, share=share)
    name = f"run_{impl.rpartition('.')[2]}_transform"
    return getattr(upstream.evaluating_operation(impl), name)(stream=events, ctx=ctx, **params)


@pytest.mark.parametrize(
    ("impl", "params", "text"),
    [
        ("hep.hist", hist("Pt"), "Pt"),
        ("hep.hist", hist("Weight * Pt"), "Weight * Pt"),
        ("hep.hist", hist("Weight", variations={"weights": {"up": "2 * Pt"}}), "2 * Pt"),
        ("hep.selection.cutflow", cutflow("Pt"), "Pt"),
        ("hep.selection.cutflow", cutflow("Pt * 2"), "Pt * 2"),
    ],
)
def test_a_list_of_values_is_no_weight(impl: str, params: dict[str, object], text: str) -> None:
    with pytest.raises(UnfitColumn, match="this weight has a list of values") as caught:
        run(impl, params)
    assert caught.value.text == text


def test_a_histogram_of_lists_may_have_a_weight_for_each_entry() -> None:
    run("hep.hist", hist("Pt", axis="Pt"))
    run("hep.hist", hist("Weight", axis="Pt"))


@pytest.mark.parametrize(
    ("impl", "params"),
    [("hep.hist", hist("noise(Weight)")), ("hep.selection.cutflow", cutflow("noise(Weight)"))],
)
def test_a_function_with_random_numbers_of_its_own_gives_those_of_fasthep(
    impl: str, params: dict[str, object]
) -> None:
    drawn: list[float] = []

    def noise(weight: ak.Array) -> ak.Array:
        drawn.append(float(np.random.default_rng(len(drawn)).normal()))
        return weight * drawn[-1]

    run(impl, params, noise=noise)
    assert len(drawn) == 1, "evaluated once, as FAST-HEP does"


@pytest.mark.parametrize("axis", ["MET", "Pt"])
def test_a_dimension_of_length_one_makes_no_list(axis: str) -> None:
    def upright(weight: ak.Array) -> Any:
        return np.asarray(weight)[:, np.newaxis]

    found = run("hep.hist", hist("upright(Weight)", axis), upright=upright)
    assert found == run("hep.hist", hist("Weight", axis))


def test_what_another_operation_evaluates_is_no_weight() -> None:
    begin("hep.hist", hist("Weight * Pt"), EVENTS, {})
    begin("hep.define", {}, EVENTS, {})
    run(
        "hep.selection.cutflow",
        {"selection": {"All": [{"reduce": {"op": "any", "over": "Weight * Pt > 1"}}]}},
    )


EVALUATED = {
    "2 * Weight + MET": 1,
    "Weight * (MET > 1)": 1,
    "noise(Weight)": 3,
    "(Weight * factor)": 3,
    "Weight * MET.ndim": 3,
}


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The expressions that FAST-HEP evaluates from now on."""
    run("hep.hist", hist("Weight"))  # from now on, its operation asks for what is counted here
    found: list[str] = []
    evaluate = upstream.eval_expr

    def counted(events: ak.Array, text: str, ctx: dict[str, object]) -> object:
        found.append(text)
        return evaluate(events, text, ctx)

    monkeypatch.setattr(upstream, "eval_expr", counted)
    return found


@pytest.mark.parametrize("weight", EVALUATED)
def test_arithmetic_of_columns_is_evaluated_once_for_several_histograms(
    weight: str, evaluated: list[str]
) -> None:
    found = [run("hep.hist", hist(weight), noise=lambda one: one, factor=2) for _ in range(3)]
    assert evaluated.count(weight) == EVALUATED[weight]
    assert found[0] == found[1] == found[2]


def test_beside_code_of_a_user_s_own_each_histogram_evaluates_its_weight(
    evaluated: list[str],
) -> None:
    for _ in range(3):
        run_on(EVENTS, "hep.hist", hist("2 * Weight"), {}, share=False)
    assert evaluated.count("2 * Weight") == 3


def test_other_events_and_a_column_that_was_assigned_have_another_weight() -> None:
    def filled(events: ak.Array) -> float:
        found = run_on(events, "hep.hist", hist("2 * Weight"), {})
        return float(found.sum(flow=True).value)

    events = ak.copy(EVENTS)
    assert filled(events) == 8.0
    assert filled(events[:2]) == 4.0
    assert filled(events) == 8.0
    events["Weight"] = events["Weight"] * 3
    assert filled(events) == 24.0


def test_nothing_is_kept_of_a_partition_that_has_ended() -> None:
    run("hep.hist", hist("2 * Weight"))
    assert patch._last is not None
    forget_evaluated()
    assert patch._last is None
    assert patch._running is None


@pytest.mark.parametrize(
    ("impl", "params", "count"),
    [
        ("hep.hist", hist("MET / (Weight - 1)"), 2),
        ("hep.hist", hist("Weight", variations={"weights": {"a": "Weight", "up": "log(-MET)"}}), 3),
        ("hep.hist", hist("Pt / (Pt - 1)", axis="Pt"), 1),
        ("hep.selection.cutflow", cutflow("MET / (Weight - 1) - MET / (Weight - 1)"), 2),
        ("hep.selection.cutflow", cutflow("Odd"), 1),
        ("hep.hist", hist("Weight * MET"), 0),
    ],
)
@pytest.mark.filterwarnings("ignore:.*encountered")
def test_events_are_counted_whose_weight_is_nan_or_infinite(
    impl: str, params: dict[str, object], count: int
) -> None:
    told: list[dict[str, object]] = []
    events = ak.with_field(EVENTS, np.array([1.0, np.nan, 1e300]), "Odd")
    run_on(events, impl, params, {"_warnings": told, "log": np.log})
    assert [one["events"] for one in told] == [count] * bool(count)
    assert all(one["node_id"] == "stage.A" for one in told)


def test_a_sum_that_is_too_large_is_of_finite_weights() -> None:
    told: list[object] = []
    events = ak.with_field(EVENTS, np.full(3, 1.7e308), "Odd")
    run_on(events, "hep.selection.cutflow", cutflow("Odd"), {"_warnings": told})
    assert told == []
