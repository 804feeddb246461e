"""Which modules a plan names: those that a worker must be able to import."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fasthep_smk.flow.modules import modules_of, only_fasthep


def node(impl: str, role: str = "transform", **execution: Any) -> SimpleNamespace:
    return SimpleNamespace(role=role, impl=impl, meta={"execution": execution})


REGISTRY = {
    "transforms": {
        "my.op": {"spec": "my_specs:SPEC", "impl": "my_ops.deep:run"},
        "never.used": {"impl": "absent:run"},
    },
    "sources": {"mine": {"impl": "my_source:read"}},
    "sinks": {"report": {"impl": "my_report:write"}},
    "execution_modifiers": {"twice": {"impl": "my_modifier:twice"}},
    "hooks": {"mine": {"impl": "my_hook:start"}, "other": {"impl": "absent_hook:start"}},
    "functions": {"f": "my_functions:f"},
    "product_handlers": {"kind": {"load": "my_products:load", "text": "not one: of them"}},
}


def test_only_what_the_plan_uses_or_loads() -> None:
    plan = SimpleNamespace(
        registry=REGISTRY,
        nodes=[node("my.op", modifiers=["twice"]), node("mine", role="source")],
        execution_hooks=[{"kind": "mine"}],
        reports=[{"op": "report"}],
    )
    assert modules_of(plan) == [
        "my_functions", "my_hook", "my_modifier", "my_ops.deep", "my_products", "my_report",
        "my_source", "my_specs",
    ]  # fmt: skip


FASTHEP = {
    "transforms": {"hep.hist": {"impl": "fasthep_carpenter.operations.hist:run"}},
    "functions": {"sqrt": "numpy:sqrt"},
}


@pytest.mark.parametrize(
    ("more", "hooks", "modifiers"),
    [
        ({"transforms": {"hep.hist": {"impl": "my_ops:run"}}}, [], []),
        ({"functions": {"f": "my_functions:f"}}, [], []),
        ({"hooks": {"mine": {"impl": "my_hook:start"}}}, [{"kind": "mine"}], []),
        ({"execution_modifiers": {"twice": {"impl": "my_modifier:twice"}}}, [], ["twice"]),
    ],
)
def test_code_of_a_user_s_own_runs_beside_that_of_fasthep(
    more: dict[str, object], hooks: list[dict[str, str]], modifiers: list[str]
) -> None:
    def plan(registry: dict[str, object]) -> SimpleNamespace:
        nodes = [node("hep.hist", modifiers=modifiers)]
        return SimpleNamespace(registry=registry, nodes=nodes, execution_hooks=hooks, reports=[])

    assert only_fasthep(plan(dict(FASTHEP)))
    assert not only_fasthep(plan({**FASTHEP, **more}))
