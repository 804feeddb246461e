"""Random numbers that modules of the analysis keep: what is warned of, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from fasthep_smk.flow.module_state import state_warnings

IMPORTS = """\
from __future__ import annotations
import functools, random
import numpy as np
import numpy.random as npr
from numpy.random import default_rng
from random import Random as Dice
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that modules are imported from."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def lines(own: Path, source: str, name: str = "") -> list[str]:
    """Return what is warned of in a module, as its lines."""
    module = name or f"kept_{abs(hash(source))}"
    (own / f"{module}.py").write_text(IMPORTS + source)
    return [one.split("`")[1] for one in state_warnings([module], own)]


@pytest.mark.parametrize(
    "line",
    [
        "RNG = np.random.default_rng(42)",
        "RNG = np.random.default_rng()",
        "RNG = npr.default_rng(seed=42)",
        "RNG = default_rng(42)",
        "RNG: np.random.Generator = np.random.Generator(np.random.PCG64(1))",
        "RNG = np.random.RandomState(1)",
        "np.random.seed(42)",
        "random.seed(42)",
        "DICE = random.Random(1)",
        "DICE = Dice(1)",
        "SHIFT = np.random.normal()",
        "SEEDS = [random.randint(0, 9) for _ in range(3)]",
        "RNG, OTHER = (np.random.default_rng(one) for one in range(2))",
        "GENERATORS = {'jets': np.random.default_rng(1)}",
        "class Smear: rng = np.random.default_rng(42)",
        "def run(*, stream, rng=np.random.default_rng(42), **_): ...",
        "run = lambda stream, rng=default_rng(42): rng.normal()",
        "if True: RNG = default_rng(42)",
        "@smeared(np.random.default_rng(42))",
    ],
)
def test_generators_made_at_import_are_told(line: str, own: Path) -> None:
    assert lines(own, f"{line}\n" + ("def run(): ...\n" if line[0] == "@" else "")) == [line]


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("torch.manual_seed(1)", "import torch"),
        ("torch.cuda.manual_seed_all(1)", "import torch"),
        ("START = torch.randn(3)", "import torch"),
        ("KEY = jax.random.PRNGKey(0)", "import jax"),
        ("KEY = jr.key(0)", "from jax import random as jr"),
        ("tf.random.set_seed(1)", "import tensorflow as tf"),
        ("RNG = cp.random.default_rng(1)", "import cupy as cp"),
        ("RNG = ROOT.TRandom3(1)", "import ROOT"),
        ("RNG = TRandom3(1)", "from ROOT import TRandom3"),
        ("gRandom.SetSeed(1)", "from ROOT import gRandom"),
    ],
)
def test_libraries_are_known_that_are_not_installed(line: str, module: str, own: Path) -> None:
    assert lines(own, f"{module}\n{line}\n") == [line]


@pytest.mark.parametrize(
    "source",
    [
        "def make():\n    return default_rng(42)\nRNG = make()",
        "class Smear:\n    def __init__(self): self.rng = default_rng(42)\nRNG = Smear()",
        "def make():\n    return inner()\ndef inner():\n    return Dice(1)\nRNG = make()",
        "from kept_helper import make\nRNG = make()",
        "from kept_helper import make as anew\nRNG = anew()",
        "import kept_helper\nRNG = kept_helper.make()",
    ],
)
def test_functions_that_are_called_at_import_are_followed(source: str, own: Path) -> None:
    (own / "kept_helper.py").write_text(
        "import numpy\ndef make():\n    return numpy.random.default_rng(1)\n"
    )
    assert lines(own, source) == [source.splitlines()[-1]]


@pytest.mark.parametrize(
    "source",
    [
        "RNG = None\ndef rng():\n    global RNG\n    RNG = default_rng(42)\n    return RNG",
        "@functools.cache\ndef rng():\n    return np.random.default_rng(42)",
        "@functools.lru_cache(1)\ndef rng(seed):\n    return np.random.default_rng(seed)",
    ],
)
def test_generators_that_a_function_remembers_are_told(source: str, own: Path) -> None:
    assert [line for line in lines(own, source) if "default_rng" in line] != []


@pytest.mark.parametrize(
    "source",
    [
        "def run(*, stream, **_):\n    return np.random.default_rng(42).normal()",
        "def run(*, stream, **_):\n    np.random.seed(42)",
        "class Smear:\n    def __call__(self): return default_rng(42)",
        "run = lambda stream: default_rng(42).normal()",
        "def outer():\n    def inner(rng=default_rng(1)): ...",
        "if __name__ == '__main__':\n    RNG = default_rng(42)",
        "SEED = np.random.SeedSequence(42)",
        "TOYS = np.random.default_rng(42).normal(size=9)",
        "TOYS = default_rng(42).permutation(9).astype(float)",
        "MAKE = np.random.default_rng",
        "def make(): return default_rng(42)\nMAKE = functools.partial(make)",
        "def run(*, rng: np.random.Generator = None): ...",
        "import my_lottery as random\nDRAWN = random.choice([1, 2])",
        "def loop(): return again()\ndef again(): return loop()\nX = loop",
        "X = " + " + ".join(["1"] * 900),
    ],
)
def test_what_no_partition_shares_is_not_told(source: str, own: Path) -> None:
    (own / "my_lottery.py").write_text("def choice(values): return values[0]\n")
    assert lines(own, source) == []


def test_each_place_is_told_once_with_what_to_do(own: Path) -> None:
    (own / "shared_helper.py").write_text("import random\n\nrandom.seed(3)\n")
    for name in ("first_op", "second_op"):
        (own / f"{name}.py").write_text("import shared_helper\n")
    (found,) = state_warnings(["first_op", "second_op", "first_op"], own)
    assert found.startswith("shared_helper.py, line 3, `random.seed(3)`: ")
    assert "from fasthep_smk import rng" in found


def test_fasthep_and_libraries_are_not_looked_at(own: Path) -> None:
    modules = [
        "fasthep_carpenter.operations.hist",
        "fasthep_smk.flow.rng",
        "numpy",
        "no_such_module",
    ]
    assert state_warnings(modules, own) == []
