"""Values as messages show them."""

from __future__ import annotations

import datetime

import pytest
import yaml

from fasthep_smk.util.yaml_values import as_yaml

SHARED = ["a"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        (float("inf"), ".inf"),
        ("name", "'name'"),
        ("", "''"),
        (" name ", "' name '"),
        ("it's", "'it''s'"),
        ("two\nlines", '"two\\nlines"'),
        ("Ä", "'Ä'"),
        (["a", "b c", "yes", "1", 1, None], "[a, b c, 'yes', '1', 1, null]"),
        ({"low": 0, "high": [1, True]}, "{low: 0, high: [1, true]}"),
        ([SHARED, SHARED], "[[a], [a]]"),
        (datetime.date(2020, 1, 31), "2020-01-31"),
    ],
)
def test_a_value_is_shown_as_it_would_be_written(value: object, text: str) -> None:
    assert as_yaml(value) == text
    assert yaml.safe_load(as_yaml(value)) == value


def test_a_long_value_is_cut() -> None:
    assert as_yaml("x" * 50, longest=20) == "'xxxxxxxxxxxxxxxx..."


def test_what_yaml_cannot_write_is_shown_as_python_does() -> None:
    endless: list[object] = []
    endless.append(endless)
    assert as_yaml(endless) == "[[...]]"
    assert as_yaml(...) == "Ellipsis"
