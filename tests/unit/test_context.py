"""What of a run's context an operation may see."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from typing import Any

import pytest

from fasthep_smk.flow import context
from fasthep_smk.flow.context import sights
from tests.unit.plans import CARPENTER

HIST = f"{CARPENTER}.hist:run_hist_transform"


def keys_of(source: str) -> set[str] | None:
    return context._keys(ast.parse(textwrap.dedent(source)))


def test_what_is_looked_up_by_name_is_known() -> None:
    source = """
        def run(*, stream, ctx=None, **_):
            scale = ctx["globals"]["scale"]
            return stream if ctx.get("dataset_name") == "data" else stream * scale
    """
    assert keys_of(source) == {"globals", "dataset_name"}


@pytest.mark.parametrize(
    "source",
    [
        "def run(*, stream, ctx):\n    return helper(stream, ctx)",
        "def run(*, stream, ctx):\n    return [ctx[name] for name in names]",
        "def run(*, stream, ctx):\n    return dict(ctx)",
        "def run(*, stream, **rest):\n    return rest['ctx']",
        "def run(*, stream, **rest):\n    return helper(**rest)",
        "def run(*, stream, ctx):\n    return sorted(ctx.items())",
    ],
)
def test_what_is_handed_on_may_be_used_for_anything(source: str) -> None:
    assert keys_of(source) is None


def test_an_op_without_context_sees_nothing_of_it() -> None:
    assert keys_of("def run(*, stream, factor, **_):\n    return stream * factor") == set()


@pytest.mark.parametrize(
    ("params", "seen"),
    [
        ({"axes": [{"source": "met", "bins": {"nbins": 3}}]}, set()),
        # Its bins are the names of all datasets of the run.
        ({"axes": [{"source": "dataset_name"}]}, {"names"}),
        ({"axes": [{"source": "dataset_name", "bins": ["a", "b"]}]}, set()),
        ({"weight_expr": "dataset_xs / dataset_nevents"}, {"dataset"}),
    ],
)
def test_a_published_histogram(params: dict[str, Any], seen: set[str]) -> None:
    assert sights(role="transform", implementation=HIST, params=params, modifiers=[]) == seen


@pytest.mark.parametrize(("role", "seen"), [("sink", {"place"}), ("observer", {"place", "names"})])
def test_what_writes_files_names_them_after_the_partition(role: str, seen: set[str]) -> None:
    assert sights(role=role, implementation=HIST, params={}, modifiers=[]) == seen


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("ctx['globals']['scale'] * ctx['pt_cut']", set()),
        ("ctx['dataset_names'].index('data')", {"names"}),
        ("ctx['dataset']['files']", {"dataset"}),
        ("ctx['partition']['part']", {"place"}),
        ("ctx['datasets']", {"run"}),
        ("helper(ctx)", {"run"}),
    ],
)
def test_an_op_of_the_users_sees_what_it_looks_up(
    body: str, seen: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"looks_{abs(hash(body))}"
    (tmp_path / f"{module}.py").write_text(f"def run(*, stream, ctx):\n    return {body}\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = sights(
        role="transform", implementation=f"{module}:run", params={}, modifiers=[], known=["pt_cut"]
    )
    assert found == seen


@pytest.mark.parametrize(
    ("implementation", "sees"),
    [
        ("fasthep_carpenter.sources.root_tree:run_root_tree_source", set()),
        # It reads the first file of its dataset, whatever the partition.
        ("fasthep_workshop.sources.parquet:run_parquet_source", {"run"}),
    ],
)
def test_a_published_source(implementation: str, sees: set[str]) -> None:
    assert sights(role="source", implementation=implementation, params={}, modifiers=[]) == sees
