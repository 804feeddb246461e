"""Objects without a typed format travel as pickles, and nothing else that a pickle can say."""

from __future__ import annotations

import collections
import datetime
import os
import pickle
import random
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest
import vector

from fasthep_smk.storage import pickles

#: How many damaged pickles are read.
COUNT = int(os.environ.get("FASTHEP_SMK_FUZZ", "300"))


class Own:
    """Stands for a class of a user's module."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and other.value == self.value

    __hash__ = None  # type: ignore[assignment]


class Runs:
    """A pickle of it calls ``function(*arguments)`` when it is read."""

    def __init__(self, function: str, *arguments: object) -> None:
        self.function, self.arguments = function, arguments

    def pickled(self) -> bytes:
        module, _, name = self.function.partition(":")
        arguments = pickle.dumps(self.arguments, 2)[2:-1]
        return b"\x80\x04c" + f"{module}\n{name}\n".encode() + arguments + b"R."


@pytest.fixture(autouse=True)
def of_a_workflow() -> Any:
    pickles.trust(["tests"])
    yield
    pickles.trust([])


@pytest.mark.parametrize(
    "value",
    [
        np.arange(3),
        np.array([1, "a"], dtype=object),
        np.float32(3),
        np.dtype("f4,i4"),
        np.random.default_rng(1),
        np.ma.array([1, 2], mask=[0, 1]),
        np.add,
        np.polynomial.Polynomial([1, 2]),
        ak.Array([[1, 2], [3]]),
        ak.Record({"x": 1}),
        vector.obj(px=1, py=2),
        hist.Hist.new.Reg(3, 0, 1, transform=hist.axis.transform.sqrt).Weight(),
        hist.Hist.new.StrCat(["a"], growth=True).Var([0, 1, 3]).Bool().Mean(),
        {"a": {1, 2}, "b": collections.Counter("aab"), "c": 1j, "d": slice(1)},
        datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        Path("a/b"),
        ValueError("x"),
        Own([1, Own("deep")]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_operations_make_is_read_back(value: object) -> None:
    found = pickles.load(pickles.dump(value))
    assert type(found) is type(value)
    assert repr(found) == repr(value) or found == value or isinstance(value, np.random.Generator)


@pytest.mark.parametrize(
    "attack",
    [
        Runs("os:system", "touch canary"),
        Runs("posix:system", "touch canary"),
        Runs("subprocess:Popen", ["touch", "canary"]),
        Runs("builtins:eval", "open('canary', 'w')"),
        Runs("builtins:exec", "open('canary', 'w')"),
        Runs("builtins:open", "canary", "w"),
        Runs("builtins:getattr", "x", "join"),
        Runs("builtins:__import__", "os"),
        Runs("builtins:type", "x", (), {}),
        Runs("importlib:import_module", "os"),
        Runs("pathlib:os.system", "touch canary"),
        Runs("numpy:memmap", "canary", "uint8", "w+", 0, (10,)),
        Runs("numpy:fromfile", "/etc/passwd"),
        Runs("numpy:save", "canary", 1),
        Runs("numpy.f2py:compile", "x"),
        Runs("numpy.testing:rundocs", "x"),
        Runs("numpy.lib._datasource:DataSource", "."),
        Runs("awkward:to_parquet", 1, "canary"),
        Runs("hepflow.utils:load_object", "os:system"),
        Runs("tests.unit.storage.test_pickles:pickle.loads", b""),
        Runs("tests.unit.storage.test_pickles:canary"),
        Runs("fasthep_smk.util.files:write_text", "canary", "x"),
        Runs("antigravity:x"),
        Runs("operator:methodcaller", "unlink"),
    ],
    ids=lambda attack: attack.function,
)
def test_nothing_runs(attack: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pickles.Refused, match=r"which nothing of this workflow makes"):
        pickles.load(attack.pickled())
    assert not list(tmp_path.iterdir())


def canary() -> None:
    """Would be called: it is a function, and no class."""
    Path("canary").touch()


def test_a_class_of_another_package_is_refused_when_it_is_written() -> None:
    pickles.trust([])
    with pytest.raises(pickles.Refused) as caught:
        pickles.dump(Own(1))
    assert caught.value.package == "tests"


def test_odd_bytes_are_an_error_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chance = random.Random(1)
    good = [pickles.dump(Own(np.arange(3))), Runs("os:system", "touch canary").pickled()]
    for _ in range(COUNT):
        content = bytearray(chance.choice(good))
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        try:
            pickles.load(bytes(content))
        except Exception as error:
            assert not isinstance(error, NameError)
    assert not list(tmp_path.iterdir())
