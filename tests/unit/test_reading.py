"""Texts that are parsed once, and values that nobody shares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


def test_what_was_written_is_read_again_in_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = {
        "text": [
            "1e5",
            "~",
            "é",
            "\u2028",
            "a\n b \n",
            " x",
            "- y: #",
            "word " * 40,
            "0x1F",
            "\\d",
        ],
        "numbers": [1e-05, 1e20, float("inf"), 0o17, True, None],
        "more": {"": [], "empty": {}, "2026-11-22": "2026-11-22", "key " * 60: 1},
    }
    path = tmp_path / "plan.yaml"
    expected = yaml.safe_load(yaml.safe_dump(value))
    monkeypatch.setattr(yaml, "load", _only_with(yaml.CSafeLoader, yaml.load))
    with each_text_once():
        with path.open("w", encoding="utf-8") as stream:
            assert yaml.safe_dump(value, stream, sort_keys=False) is None
        assert path.read_text(encoding="utf-8") == yaml.safe_dump(value, sort_keys=False)
        with path.open(encoding="utf-8") as stream:
            found = yaml.safe_load(stream)
    assert found == expected == value
    assert list(found) == list(value)


def _only_with(wanted: type, load: Any) -> Any:
    def checked(stream: Any, loader: type | None = None, **options: type) -> Any:
        assert wanted in (loader, options.get("Loader"))
        return load(stream, wanted)

    return checked


def test_a_message_names_the_file_of_a_person(tmp_path: Path) -> None:
    path = tmp_path / "workflow.yaml"
    path.write_text("a: [", encoding="utf-8")
    with (
        each_text_once(),
        path.open(encoding="utf-8") as stream,
        pytest.raises(yaml.YAMLError, match=str(path)),
    ):
        yaml.safe_load(stream)


def test_what_cannot_be_read_is_refused_each_time() -> None:
    with each_text_once():
        for _ in range(2):
            with pytest.raises(yaml.YAMLError):
                yaml.safe_load("a: [")
    assert yaml.safe_load("a") == "a"
