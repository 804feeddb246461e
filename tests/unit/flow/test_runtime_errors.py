"""An error in a user's module is told with the line of that module."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from fasthep_smk.flow.stage_error import own_line

MODULE = """
import numpy as np

def direct(value):
    return value + 1

def by_numpy(value):
    return np.concatenate(value)

def helper(value):
    raise KeyError(value)

def by_helper(value):
    return helper(value)

def other_error(value):
    try:
        helper(value)
    except KeyError:
        raise ValueError("not that") from None

short = lambda value: value.nothing
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "lines_of").mkdir()
    (tmp_path / "lines_of" / "met.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module("lines_of.met")


def error_of(module: ModuleType, function: str) -> Exception:
    with pytest.raises((TypeError, KeyError, ValueError, AttributeError)) as caught:
        getattr(module, function)(None)
    return caught.value


@pytest.mark.parametrize(
    ("function", "line"),
    [
        ("direct", "lines_of/met.py, line 5, in direct"),
        ("by_numpy", "lines_of/met.py, line 8, in by_numpy"),
        ("by_helper", "lines_of/met.py, line 11, in helper"),
        ("other_error", "lines_of/met.py, line 20, in other_error"),
        ("short", "lines_of/met.py, line 22"),
    ],
)
def test_the_last_line_of_ones_own_is_told(module: ModuleType, function: str, line: str) -> None:
    assert own_line(error_of(module, function)) == line


def test_an_error_that_stands_for_another_is_looked_behind(module: ModuleType) -> None:
    error = RuntimeError("what FAST-HEP makes of it")
    error.__cause__ = error_of(module, "direct")
    assert own_line(error) == "lines_of/met.py, line 5, in direct"


def test_an_error_of_fasthep_alone_has_no_line() -> None:
    assert own_line(RuntimeError("raised by nobody")) is None
