"""A release of FAST-HEP that we were not tested with: it fits, or what has changed is said."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fasthep_smk.flow import contract, release
from fasthep_smk.flow.release import DoesNotFit


def takes_more(paths: Any, extra: Any) -> None: ...


def takes_less() -> None: ...


def takes_all(**_: Any) -> None: ...


@dataclass
class Record:
    a: int
    b: int


CHANGES = [
    ("CALLS", "takes_more", "paths", "needs 'extra', too"),
    ("CALLS", "takes_less", "paths", "no longer takes 'paths'; it takes nothing"),
    ("CALLS", "takes_all", "paths", ""),
    ("CALLS", "takes_more", "paths extra", ""),
    ("CALLS", "gone", "", "is gone"),
    ("METHODS", "Record", "__eq__ moved", "no longer has 'moved'"),
    ("METHODS", "Record", "__eq__", ""),
]


def only(monkeypatch: pytest.MonkeyPatch, table: str, names: dict[str, str]) -> None:
    """Let the contract be this table alone."""
    for one in ("CALLS", "METHODS"):
        monkeypatch.setattr(contract, one, names if one == table else {})


@pytest.mark.parametrize(("table", "name", "wanted", "message"), CHANGES)
def test_what_has_changed_is_said(
    table: str, name: str, wanted: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, table, {f"{__name__}:{name}": wanted})
    assert contract.differences() == ([f"{__name__}.{name} {message}"] if message else [])


def test_a_module_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "CALLS", {"hepflow.moved:run": ""})
    assert contract.differences() == ["there is no module hepflow.moved"]


@pytest.fixture
def december(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Releases of December are installed; the folder is that of what we remember."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = {
        name: SimpleNamespace(version="2026.12.0", locate_file=lambda _: tmp_path)
        for name in release.TESTED
    }
    monkeypatch.setattr(release, "_installed", lambda: found)
    return tmp_path


@pytest.mark.usefixtures("december")
def test_a_release_that_fits_is_noted_once() -> None:
    note = release.check()
    assert note is not None
    assert note.startswith("fasthep-flow 2026.12.0, ")
    assert "was not tested with this fasthep-smk (newest tested: 2026.10.1)" in note
    assert release.check() is None


@pytest.mark.usefixtures("december")
def test_another_contract_is_looked_at_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    assert release.check()
    only(monkeypatch, "METHODS", {f"{__name__}:Record": ""})
    assert release.check()


def test_where_nothing_can_be_remembered_it_is_looked_at_each_time(december: Path) -> None:
    (december / "fasthep-smk").write_text("")
    assert release.check()
    assert release.check()


@pytest.mark.usefixtures("december")
def test_a_release_that_does_not_fit_is_refused_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "CALLS", {f"{__name__}:takes_less": "paths"})
    for _ in range(2):
        with pytest.raises(DoesNotFit) as error:
            release.check()
    assert error.value.exit_code == 2
    lines = str(error.value).splitlines()
    assert (
        lines[1] == f"    changed  {__name__}.takes_less no longer takes 'paths'; it takes nothing"
    )
    assert lines[2].startswith("    found    fasthep-flow 2026.12.0, fasthep-carpenter 2026.12.0")
    assert lines[3] == "    tested   up to 2026.10.1"
    assert lines[4].startswith("    hint     pip install 'fasthep-flow==2026.10.1' ")


def test_the_tests_are_run_with_the_tested_releases() -> None:
    text = (Path(__file__).parents[3] / ".ci" / "tested.txt").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines == [f"{name}=={version}" for name, version in release.TESTED.items()]


def test_the_tested_release_costs_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "CALLS", {"hepflow.moved:run": ""})
    assert release.check() is None
