"""``enable`` writes one file, which FAST-HEP's profiles lead to."""

from __future__ import annotations

from pathlib import Path

import pytest
from hepflow.compiler.profiles import expand_profile_names

from fasthep_smk.backend.project_profile import PATH, disable, enable
from fasthep_smk.util.errors import Findings

OURS = "fasthep_smk:registry"


@pytest.mark.parametrize("name", ["registry", "basic", "hep", "hep_debug", "hepflow:hep"])
def test_each_profile_of_fasthep_leads_to_the_backend(name: str, tmp_path: Path) -> None:
    before = expand_profile_names([name], project_root=tmp_path)
    enable(tmp_path)
    found = expand_profile_names([name], project_root=tmp_path)
    assert OURS in found
    assert [one.removeprefix("hepflow:") for one in found if one != OURS] == before


def test_what_was_written_is_removed_unless_it_was_edited(tmp_path: Path) -> None:
    enable(tmp_path)
    assert disable(tmp_path) == tmp_path / PATH
    assert disable(tmp_path) is None
    enable(tmp_path)
    with (tmp_path / PATH).open("a") as stream:
        stream.write("  - mine\n")
    with pytest.raises(Findings, match="is not removed, because somebody has edited it"):
        disable(tmp_path)
    assert (tmp_path / PATH).is_file()


def test_enabling_twice_changes_nothing(tmp_path: Path) -> None:
    assert enable(tmp_path) == (tmp_path / PATH, True)
    assert enable(tmp_path) == (tmp_path / PATH, False)


def test_a_registry_of_the_users_is_refused_with_the_lines_to_add(tmp_path: Path) -> None:
    own = tmp_path / PATH
    own.parent.mkdir(parents=True)
    own.write_text("includes: ['hepflow:registry', mine]\n")
    with pytest.raises(Findings, match=r"- hepflow:registry\n +- fasthep_smk:registry"):
        enable(tmp_path)
    (own.parent / "mine.yaml").write_text(f"includes: ['{OURS}']\n")
    assert enable(tmp_path) == (own, False), "it leads there already"
    assert own.read_text() == "includes: ['hepflow:registry', mine]\n"


@pytest.mark.parametrize("what", ["link", "folder"])
def test_what_is_no_file_is_left_alone(what: str, tmp_path: Path) -> None:
    path = tmp_path / PATH
    path.parent.mkdir(parents=True)
    path.symlink_to("nowhere") if what == "link" else path.mkdir()
    with pytest.raises(Findings, match=str(PATH)):
        enable(tmp_path)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Findings, match="there is no such folder"):
        enable(tmp_path / "missing")
