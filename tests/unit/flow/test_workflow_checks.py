"""Files whose events would count twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fasthep_smk.flow.workflow_checks import double_findings


def problems(*datasets: dict[Any, Any]) -> list[str]:
    found = double_findings({"data": {"datasets": list(datasets)}}, workflow="w.yaml")
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
