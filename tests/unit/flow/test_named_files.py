"""Which files texts name, and what identifies them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fasthep_smk.flow.named_files import NamedFiles, file_identity


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("sf.json", "sf/a.json", "sf/b.json", "sf/deep/c.json", "sf/.hidden"):
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "project"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("sf.json", ["sf.json"]),
        ("sf.json:key", ["sf.json:key"]),
        ("file://sf.json", ["file://sf.json"]),
        ("$SMK_TEST_ROOT/a.json", ["$SMK_TEST_ROOT/a.json"]),
        ("sf/{dataset}.json", ["sf/a.json", "sf/b.json"]),
        ("sf/*.json", ["sf/a.json", "sf/b.json"]),
        ("sf/", ["sf/", "sf/deep", "sf/a.json", "sf/b.json", "sf/deep/c.json"]),
        ("./sf", ["./sf", "./sf/deep", "./sf/a.json", "./sf/b.json", "./sf/deep/c.json"]),
        # Texts that could name a file, but do not.
        ("sf", []),
        ("{dataset}", []),
        ("{dataset}.json", []),
        ("Muon_pt > 30", []),
        ("../", []),
        ("absent.json", []),
        ("sf.json\n", []),
        ("a" * 5000, []),
    ],
)
def test_a_text_names_these_files(
    project: Path, monkeypatch: pytest.MonkeyPatch, text: str, found: list[str]
) -> None:
    monkeypatch.setenv("SMK_TEST_ROOT", "sf")
    named = NamedFiles([project])
    assert list(named.find({"any": [text]})) == found


def test_what_a_workflow_ignores_and_the_build_folder_are_not_looked_at(project: Path) -> None:
    (project / "build").mkdir()
    (project / "build/x.json").write_text("1")
    named = NamedFiles([project], ["sf/**"], own=[project / "build"])
    assert named.find(["sf.json", "sf/a.json", "sf/deep/c.json", "sf/", "build/x.json"]) == {
        "sf.json": project / "sf.json"
    }


def test_files_of_one_name_beside_the_workflow_and_in_the_folder_of_the_run_count(
    project: Path,
) -> None:
    other = project / "sub"
    (other / "sf").mkdir(parents=True)
    named = NamedFiles([project, other])
    for text in ("sf/a.json", "sf/{dataset}.json", "sf/"):
        (other / "sf/a.json").write_text("1")
        before = NamedFiles([project, other]).identities([text])
        (other / "sf/a.json").write_text("2")
        assert NamedFiles([project, other]).identities([text]) != before
    assert list(named.find(["sf/a.json"]).values()) == [project / "sf/a.json", other / "sf/a.json"]
    assert list(named.find([str(project / "sf.json")])) == [str(project / "sf.json")]


def test_what_an_operation_has_written_is_no_input_of_it_until_it_is_edited(project: Path) -> None:
    path = project / "sf/a.json"
    named = NamedFiles([project]).knowing({str(path): {file_identity(path): {"my.write"}}})
    before = named.identity_now(project / "sf")
    assert not named.find(["sf/a.json"], by="my.write")
    assert named.find(["sf/a.json"], by="my.read")
    path.write_text("somebody else's")
    assert named.find(["sf/a.json"], by="my.write")
    assert named.identity_now(project / "sf") != before  # one more name in it


def test_a_folder_with_only_what_an_operation_has_written_is_no_input(project: Path) -> None:
    (project / "out").mkdir()
    log = project / "out/log.txt"
    log.write_text("1")
    made = {str(log): {file_identity(log): {"my.write"}}}
    assert not NamedFiles([project]).knowing(made).find(["./out"], by="my.write")
    (project / "out/input.txt").write_text("2")
    found = NamedFiles([project]).knowing(made).find(["./out"], by="my.write")
    assert list(found) == ["./out", "./out/input.txt"]


def test_another_content_is_another_file_and_a_touched_one_the_same(project: Path) -> None:
    path = project / "sf.json"
    first = file_identity(path)
    path.touch()
    assert file_identity(path) == first
    path.write_text("other")
    assert file_identity(path) != first
    path.unlink()
    assert file_identity(path) is None


def test_a_folder_is_its_list_of_names(project: Path) -> None:
    first = file_identity(project / "sf")
    (project / "sf/a.json").write_text("other")
    (project / "sf/.swap").touch()
    assert file_identity(project / "sf") == first
    (project / "sf/new.json").touch()
    assert file_identity(project / "sf") != first


def test_a_pipe_is_not_opened(project: Path) -> None:
    import os

    os.mkfifo(project / "pipe")
    assert file_identity(project / "pipe") == "no regular file"
