"""PyYAML's own texts and values, in less time."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from fasthep_smk.flow.patches.quick_yaml import is_plain, parse_written, quick_yaml

TEXT = "a: &x [1, 2.5, 2026-11-22, !!binary aGVw, ~, !!set {s}]\nb: *x\n"


def test_each_call_has_a_value_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    parse, parsed = yaml.load, []
    monkeypatch.setattr(yaml, "load", lambda *args: parsed.append(args) or parse(*args))
    expected = yaml.safe_load(TEXT)
    with quick_yaml():
        first, second = yaml.safe_load(TEXT), yaml.safe_load(TEXT)
        first["a"].append("changed")
        assert second == yaml.safe_load(TEXT) == expected
        assert second["a"] is second["b"]  # as an alias says
        assert [type(item) for item in second["a"]] == [type(item) for item in expected["a"]]
    assert len(parsed) == 2  # one before the block
    yaml.safe_load(TEXT)
    assert len(parsed) == 3
    with quick_yaml():  # a later step of a run
        assert yaml.safe_load(TEXT) == expected
    assert len(parsed) == 3


# Each must look odd to somebody: to a YAML parser, or to an emitter that breaks lines.
WORDS = [
    *("1e5", "~", "yes", "0x1F", "12:30", "2026-11-22", "- y: #", " x", "x ", "a: b", "#", "="),
    *("<<", "&a", "*a", "!b", "%", "@", "`", "?", "|", ">", "'", '"', "\\d+", "{a}", "[b]", "word"),
    *("muon_pt > 30", "/data/a_long_folder_that_is_never_broken/and_another_one/a_file.root"),
    *("é", "\u2028", "a\n b \n", "\t", ""),
]
NUMBERS = [None, True, False, 0, -1, 10**20, 1e-05, 1.5e300, 0.1, 3.0, float("inf")]


def something(random: Random, plain: bool, depth: int = 0) -> Any:
    """A value as it may be in a plan; of printable text if ``plain``."""
    kind = random.random()
    if depth > 4 or kind < 0.4:
        words = [word for word in WORDS if is_plain(word)] if plain else WORDS
        return " ".join(random.choices(words, k=random.choice([1, 1, 1, 2, 5, 30])))
    if kind < 0.5:
        return random.choice(NUMBERS)
    count = range(random.randint(0, 4))
    if kind < 0.7:
        return [something(random, plain, depth + 1) for _ in count]
    keys = ["a", "b c", "- d", "1", *([] if plain else ["", "é", "key " * 60])]
    found = {random.choice(keys): something(random, plain, depth + 1) for _ in count}
    if found and random.random() < 0.2:
        found["again"] = next(iter(found.values()))  # an anchor and an alias
    return found


@pytest.mark.parametrize("options", [{}, {"sort_keys": False}, {"width": float("inf")}])
@pytest.mark.parametrize("plain", [True, False])
def test_texts_and_values_are_those_of_pyyaml(plain: bool, options: dict[str, Any]) -> None:
    random = Random(5)
    for _ in range(200):
        value = {"plan": something(random, plain)}
        text = yaml.safe_dump(value, **options)
        expected = yaml.safe_load(text)
        with quick_yaml():
            assert yaml.safe_dump(value, **options) == text
            for _ in range(2):
                assert repr(yaml.safe_load(text)) == repr(parse_written(text)) == repr(expected)
        assert expected == value
        assert not plain or is_plain(value)


def test_what_was_written_is_read_again_in_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = {"plan": [*WORDS, *NUMBERS], "order": {"b": 1, "a": 2}}
    path = tmp_path / "plan.yaml"
    monkeypatch.setattr(yaml, "load", _only_with(yaml.CSafeLoader, yaml.load))
    with quick_yaml():
        with path.open("w", encoding="utf-8") as stream:
            assert yaml.safe_dump(value, stream, sort_keys=False) is None
        assert path.read_text(encoding="utf-8") == yaml.safe_dump(value, sort_keys=False)
        with path.open(encoding="utf-8") as stream:
            found = yaml.safe_load(stream)
    assert found == value
    assert list(found["order"]) == ["b", "a"]


def test_a_plan_is_parsed_once_however_often_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    parse, parsed = yaml.load, []
    monkeypatch.setattr(yaml, "load", lambda *a, **b: parsed.append(a) or parse(*a, **b))
    with quick_yaml():
        text = yaml.safe_dump({"plan": [1, 2]})
        yaml.safe_load(text)["plan"].append("changed")
        assert yaml.safe_load(text) == parse_written(text.encode()) == {"plan": [1, 2]}
        assert len(parsed) == 1
    assert parse_written(text) == {"plan": [1, 2]}
    assert len(parsed) == 2


def _only_with(wanted: type, load: Any) -> Any:
    def checked(stream: Any, loader: type | None = None, **options: type) -> Any:
        assert wanted in (loader, options.get("Loader"))
        return load(stream, wanted)

    return checked


def test_what_is_not_plain_is_left_to_pyyaml() -> None:
    for value in ({"": 1}, {"k" * 101: 1}, {"a": "é"}, {"a": ["\n"]}, {"a": {1: object()}}):
        assert not is_plain(value)
    itself: dict[str, Any] = {}
    itself["itself"] = itself
    with quick_yaml():
        assert yaml.safe_dump(itself) == "&id001\nitself: *id001\n"
        assert yaml.safe_dump("é", allow_unicode=True) == "é\n...\n"
        assert yaml.safe_dump({"a": 1}, encoding="utf-8") == b"a: 1\n"


def test_what_somebody_has_taught_pyyaml_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    taught = type("Dumper", (yaml.SafeDumper,), {})
    taught.add_representer(str, lambda dumper, text: dumper.represent_str(text.upper()))
    known = taught.yaml_representers  # type: ignore[attr-defined]
    monkeypatch.setattr(yaml.SafeDumper, "yaml_representers", known)
    with quick_yaml():
        assert yaml.safe_dump({"a": "b"}) == "A: B\n"


def test_half_of_a_character_is_read_as_ever() -> None:
    value = {"name": "odd \udce9 name"}
    with quick_yaml():
        assert yaml.safe_load(yaml.safe_dump(value)) == value


def test_a_message_names_the_file_of_a_person(tmp_path: Path) -> None:
    path = tmp_path / "workflow.yaml"
    path.write_text("a: [", encoding="utf-8")
    with (
        quick_yaml(),
        path.open(encoding="utf-8") as stream,
        pytest.raises(yaml.YAMLError, match=str(path)),
    ):
        yaml.safe_load(stream)


def test_what_cannot_be_read_is_refused_each_time() -> None:
    with quick_yaml():
        for _ in range(2):
            with pytest.raises(yaml.YAMLError):
                yaml.safe_load("a: [")
    assert yaml.safe_load("a") == "a"
