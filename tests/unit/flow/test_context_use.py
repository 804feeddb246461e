"""What of a run's context an operation may see."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from typing import Any

import pytest

from fasthep_smk.flow import context_use
from fasthep_smk.flow.context_use import sights
from tests.unit.plans import CARPENTER

HIST = f"{CARPENTER}.hist:run_hist_transform"


def keys_of(source: str) -> set[str] | None:
    return context_use._keys(ast.parse(textwrap.dedent(source)))


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
        "def run(*, stream, ctx):\n    return helper(**locals())",
        "def run(*, stream, ctx):\n    return vars()[name]",
        "def run(*, stream, ctx):\n    return eval(formula)",
        "def run(*, stream, ctx):\n    return [exec(text) for text in formulas]",
        "def run(*, stream, ctx):\n    return stream.query('x > @ctx[\"datasets\"]')",
        "def run(*, stream, ctx):\n    match ctx:\n        case {'datasets': found}: return found",
        "def run(*, stream, ctx):\n    return len(other := ctx)",
        "def run(ctx, /, **rest):\n    return rest",
        "class Run:\n    before_node = lambda self, **rest: helper(rest)",
        "class Run:\n    ctx: dict\n    def names(self): return self.ctx['datasets']",
        "def helper():\n    return sys._getframe(1).f_locals[name]",
    ],
)
def test_what_is_handed_on_may_be_used_for_anything(source: str) -> None:
    assert keys_of(source) is None


@pytest.mark.parametrize(
    "source",
    [
        "from fasthep_smk import rng\ndef run(*, ctx):\n    return rng(ctx, 'jets').normal()",
        "from fasthep_smk import rng as own\ndef run(*, ctx):\n    return own(ctx=ctx)",
        "import fasthep_smk as smk\ndef run(*, ctx):\n    return smk.rng(ctx)",
    ],
)
def test_random_numbers_depend_on_nothing_but_the_partitions_own_events(source: str) -> None:
    assert keys_of(source) == set()


@pytest.mark.parametrize(
    "source",
    [
        "from my_helpers import rng\ndef run(*, ctx):\n    return rng(ctx)",
        "from fasthep_smk import rng\ndef rng(ctx): ...\ndef run(*, ctx):\n    return rng(ctx)",
        "from fasthep_smk import rng\ndef run(*, ctx, rng):\n    return rng(ctx)",
        "from fasthep_smk import rng\ndef run(*, ctx):\n    return rng(ctx, ctx)",
    ],
)
def test_another_rng_may_use_the_context_for_anything(source: str) -> None:
    assert keys_of(source) is None


def test_variables_of_what_has_no_context_do_not_matter() -> None:
    assert keys_of("def area(x):\n    return eval('x * x', {}, vars(x)) + locals()['x']") == set()


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


PLAIN = "def run(*, stream, ctx):\n    return ctx['dataset_name']\n"
IMPORTS = """
import collections.abc, contextlib, dataclasses, functools, inspect, json, logging, math
import multiprocessing, numpy, os, pathlib, typing
import awkward as ak
from decimal import Decimal
from typing import Any
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that modules are imported from."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def seen(implementation: str, *modifiers: str) -> set[str]:
    return set(
        sights(role="transform", implementation=implementation, params={}, modifiers=modifiers)
    )


def test_the_source_of_imported_libraries_is_not_searched(own: Path) -> None:
    """Python's own modules and NumPy speak of a ``ctx``, of ``outdir`` and of variations."""
    (own / "imports.py").write_text(IMPORTS + PLAIN)
    assert seen("imports:run") == set()
    assert not context_use.sees_variation("imports:run", [])


def test_own_modules_that_an_op_imports_are_searched(own: Path) -> None:
    (own / "far_helper.py").write_text("def name(c, ctx):\n    return ctx['datasets']\n")
    (own / "near_helper.py").write_text("import far_helper\n")
    (own / "imports_helpers.py").write_text("import near_helper\n" + PLAIN)
    assert seen("imports_helpers:run") == {"run"}


@pytest.mark.parametrize(
    "source",
    [
        "import functools\ndef _run(*, ctx): ...\nrun = functools.partial(_run)",
        "from numpy import hypot as run",
        "from numba import njit\n@njit\ndef run(*, ctx): ...",
        "import functools\n@functools.cache\ndef run(*, ctx): ...",
        "from numpy import vectorize\ndef run(*, ctx): ...\nrun = vectorize(run)",
        "from collections import UserDict\nclass run(UserDict): ...",
        "run = lambda **rest: rest",
        "def __getattr__(name): ...",
        "from os.path import *",
    ],
)
def test_what_a_library_makes_of_an_op_may_see_everything(source: str, own: Path) -> None:
    module = f"made_{abs(hash(source))}"
    (own / f"{module}.py").write_text(source)
    assert seen(f"{module}:run") == {"run"}
    assert context_use.sees_variation(f"{module}:run", [])


@pytest.mark.parametrize(
    "source",
    [
        "from plain_helper import run",
        "from plain_helper import _run as run",
        "from plain_helper import checked\n@checked('x')\ndef run(*, stream, ctx): ...",
        "from hepflow.model.hooks import ExecutionHook\nclass run(ExecutionHook): ...",
        "from dataclasses import dataclass\n@dataclass\nclass run:\n    by: float",
    ],
)
def test_what_own_modules_make_of_an_op_is_searched(source: str, own: Path) -> None:
    helper = "def checked(what): ...\ndef _run(*, stream, ctx): ...\n" + PLAIN
    (own / "plain_helper.py").write_text(helper)
    module = f"found_{abs(hash(source))}"
    (own / f"{module}.py").write_text(source)
    assert seen(f"{module}:run") == set()


def test_an_op_that_is_installed_may_see_everything() -> None:
    assert seen("awkward.operations.ak_num:num") == {"run"}


@pytest.mark.parametrize(
    ("body", "shared"),
    [
        ("stream", True),
        ("ctx['dataset_name']", True),
        ("ctx['datasets']", True),
        ("ctx['variation']", False),
        ("ctx['build_paths']", False),
        ("library.smear(stream, ctx)", False),
    ],
)
def test_an_op_that_may_depend_on_the_variation_is_not_shared(
    body: str, shared: bool, own: Path
) -> None:
    module = f"varied_{abs(hash(body))}"
    (own / f"{module}.py").write_text(f"def run(*, stream, ctx):\n    return {body}\n")
    assert context_use.sees_variation(f"{module}:run", []) is not shared
    assert context_use.sees_variation(HIST, [f"{module}:run"]) is not shared
