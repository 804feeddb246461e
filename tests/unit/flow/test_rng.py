"""Seeds of random numbers: what they are made of, and what not."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from fasthep_smk import rng


def ctx(**more: Any) -> dict[str, Any]:
    """Return the context of an operation, as FAST-HEP makes it for each call."""
    partition = {"file": "data/dy.root", "start": 0, "stop": 100, "part": "0_0", "id": "e__dy__0"}
    found = {"node_id": "stage.Smear", "dataset_name": "dy", "partition": partition, "globals": {}}
    return found | more


def at(**more: Any) -> dict[str, Any]:
    """Return the context of another partition."""
    return ctx(partition=ctx()["partition"] | more)


def first(context: dict[str, Any], name: str = "") -> float:
    return float(rng(context, name).random())


def test_the_numbers_stay_what_they_are() -> None:
    """Another recipe for seeds changes the results of analyses."""
    assert first(ctx()) == 0.9337959321491596
    assert first(ctx(globals={"seed": 7}), "jets") == 0.8229753467026452


@pytest.mark.parametrize(
    "other",
    [
        at(file="data/dy_1.root"),
        at(start=100, stop=200),
        ctx(dataset_name="ttbar"),
        ctx(node_id="stage.Smear2"),
        ctx(globals={"seed": 1}),
        ctx(partition=None),
        ctx(partition=None, dataset_name=None),
    ],
)
def test_what_differs_draws_other_numbers(other: dict[str, Any]) -> None:
    assert first(other) != first(ctx())


@pytest.mark.parametrize(
    "other",
    [
        at(id="e__dy__7", part="7_0"),
        at(stop=50),
        at(start=None, stop=None),
        ctx(node_id="stage.Smear@scale_up"),
        ctx(variation={"name": "scale_up"}, outdir="/elsewhere", datasets={"more": {}}),
        ctx(globals={"min_pt": 3}),
    ],
)
def test_what_is_the_same_partition_draws_the_same_numbers(other: dict[str, Any]) -> None:
    assert first(other) == first(ctx())


def test_an_operation_draws_on() -> None:
    context, once = ctx(), rng(ctx()).random(4)
    assert [*rng(context).random(2), *rng(context).random(2)] == list(once)


def test_names_have_numbers_of_their_own() -> None:
    context = ctx()
    jets = first(context, "jets")
    assert jets != first(context, "muons")
    assert jets == first(ctx(), "jets")


def test_a_context_that_is_no_operations_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rng\(ctx\).*node_id.*hook or modifier"):
        rng({"dataset_name": "dy"})


def test_importing_it_imports_no_library() -> None:
    code = "import sys; from fasthep_smk import rng; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint({"numpy", "hepflow", "json", "hashlib", "yaml", "snakemake"})
