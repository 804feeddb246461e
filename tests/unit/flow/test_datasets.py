"""What datasets say: values that are no numbers, and files that count twice."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from fasthep_smk.flow.datasets import dataset_findings


def problems(*datasets: dict[Any, Any]) -> list[str]:
    found = dataset_findings({"data": {"datasets": list(datasets)}}, workflow="w.yaml")
    return [f"{one.key}: {one.problem}" for one in found]


@pytest.mark.parametrize(
    "how", ["absolute", "symbolic link", "hard link", "a folder's link", "a URL", "a link's URL"]
)
def test_a_file_by_another_name_is_the_same_file(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "data" / "a.root"
    file.parent.mkdir()
    file.write_bytes(b"events")
    (tmp_path / "b.root").symlink_to(file)
    (tmp_path / "c.root").hardlink_to(file)
    (tmp_path / "other").symlink_to("data")
    other = {
        "absolute": str(file),
        "symbolic link": "b.root",
        "hard link": "c.root",
        "a folder's link": "other/a.root",
        "a URL": file.as_uri(),
        "a link's URL": "file:b.root",
    }[how]
    assert problems({"name": "d", "files": ["data/a.root", other]}) == [
        "data.datasets['d'].files[1]: the dataset lists this file twice: its events would count "
        "twice"
    ]
    assert problems({"name": "d", "files": [other]}, {"name": "e", "files": ["data/a.root"]}) == [
        "data.datasets['e'].files[0]: dataset 'd' lists this file, too: its events would count "
        "twice"
    ]


def test_files_of_the_same_content_are_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.root", "b.root"):
        (tmp_path / name).write_bytes(b"events")
    assert problems({"name": "d", "files": ["a.root", "b.root", "root://host//a.root"]}) == []


def test_a_decimal_comma_makes_a_key_of_a_number() -> None:
    """``{name: d, xs: 1,5}`` holds 1 as cross-section, and the key 5."""
    assert problems({"name": "d", "xs": 1, 5: None}) == [
        "data.datasets['d']: holds the key 5, without a value"
    ]
    assert problems({"name": "d", "13TeV": True, "2018_lumi": 59.8, 2018: "B"}) == []


def test_a_cross_section_is_a_finite_number() -> None:
    assert problems({"name": "d", "xs": float("nan")}) == [
        "data.datasets['d'].xs: is not a finite number"
    ]
    assert problems({"name": "d", "xs": -0.5}) == []


def test_values_that_json_does_not_have_are_named() -> None:
    day = datetime.date(2018, 5, 1)
    (found,) = dataset_findings(
        {"data": {"datasets": [{"name": "dy", "files": ["a.root"], "runs": [{"taken": day}]}]}},
        workflow="w.yaml",
    )
    assert found.key == "data.datasets['dy'].runs[0].taken"
    assert found.problem == "YAML reads this as a date, which FAST-HEP cannot write"
    assert found.hint == "write '2018-05-01', in quotes"
    assert problems({"name": "dy", "files": ["a.root"], "tags": {"a", "b"}, "raw": b"x"}) == [
        "data.datasets['dy'].tags: YAML reads this as a set, which FAST-HEP cannot write",
        "data.datasets['dy'].raw: YAML reads this as binary data, which FAST-HEP cannot write",
    ]
    assert (
        problems({"name": "dy", "files": ["a.root"], "runs": {1: "a", 2.5: "b", False: "c"}}) == []
    )
    assert problems({"name": "dy", "files": ["a.root"], "runs": {1: "a", "x": "b"}}) == [
        "data.datasets['dy'].runs: YAML reads this as a mapping with keys of several kinds, which "
        "FAST-HEP cannot write"
    ]
