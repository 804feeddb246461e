"""Which modules a plan names: those that a worker must be able to import."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fasthep_smk.flow.modules import modules_of


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
