"""Texts that are parsed once, and values that nobody shares."""

from __future__ import annotations

import pytest
import yaml

from fasthep_smk.flow.reading import each_text_once

TEXT = "a: &x [1, 2.5, 2026-11-22, !!binary aGVw, ~, !!set {s}]\nb: *x\n"


def test_each_call_has_a_value_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    parse, parsed = yaml.load, []
    monkeypatch.setattr(yaml, "load", lambda *args: parsed.append(args) or parse(*args))
    expected = yaml.safe_load(TEXT)
    with each_text_once():
        first, second = yaml.safe_load(TEXT), yaml.safe_load(TEXT)
        first["a"].append("changed")
        assert second == yaml.safe_load(TEXT) == expected
        assert second["a"] is second["b"]  # as an alias says
        assert [type(item) for item in second["a"]] == [type(item) for item in expected["a"]]
    assert len(parsed) == 2  # one before the block
    yaml.safe_load(TEXT)
    assert len(parsed) == 3


def test_what_cannot_be_read_is_refused_each_time() -> None:
    with each_text_once():
        for _ in range(2):
            with pytest.raises(yaml.YAMLError):
                yaml.safe_load("a: [")
    assert yaml.safe_load("a") == "a"
