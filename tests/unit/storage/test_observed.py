"""Whether what jobs have read is as it was, and what is said if it is not."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from fasthep_smk.flow.named_files import NamedFiles, file_identity
from fasthep_smk.storage import layout, observed
from fasthep_smk.storage.observed import ALL, Checks, Observation, Surroundings

Change = Callable[..., str | None]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "build").mkdir()
    (tmp_path / "sf.json").write_text("1")
    return tmp_path


@pytest.fixture
def change(project: Path) -> Change:
    """Return what is said of a record with these observations, with variables as they are now."""

    def change(*found: Observation, ignored: tuple[str, ...] = (), **variables: str) -> str | None:
        digest = observed.save(project / "build", found)
        surroundings = Surroundings(project, variables, ignored)
        checks = Checks(project / "build", surroundings, NamedFiles([project], ignored))
        return checks.change({"observed": [digest]})

    return change


def read(name: str, project: Path) -> Observation:
    return Observation("file", name, "my.op", file_identity(project / name))


def test_a_file_may_change_go_and_come(change: Change, project: Path) -> None:
    there, absent = read("sf.json", project), read("none.json", project)
    assert change(there, absent) is None
    (project / "sf.json").write_text("2")
    assert change(there) == "sf.json, read by my.op, has changed"
    (project / "sf.json").unlink()
    assert change(there) == "sf.json, read by my.op, is gone"
    (project / "none.json").write_text("")
    assert change(absent) == "none.json, read by my.op, was not there before"


def test_a_variable_is_compared_by_its_digest(change: Change) -> None:
    one = Observation("variable", "SF", "my.op", "digest")
    assert change(one, SF="digest") is None
    assert change(one, SF="other") == "the variable SF, read by my.op, has changed"
    assert change(one) == "the variable SF, read by my.op, is gone"


def test_what_is_ignored_does_not_count(change: Change, project: Path) -> None:
    found = read("sf.json", project), Observation("variable", "SF", "my.op", "digest")
    (project / "sf.json").write_text("2")
    assert change(*found, ignored=("*.json", "$SF")) is None


def test_a_pattern_that_is_no_longer_ignored_counts(change: Change) -> None:
    found = Observation("ignored", "*.json", "my.op", "ignored")
    assert change(found, ignored=("*.json",)) is None
    assert change(found) == "my.op has read files like *.json, no longer in ignore_reads"


def test_a_file_counts_that_lies_so_from_where_its_module_or_workflow_is_now(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a copy of code, workflow and table they find the copy of the table."""
    for name in ("v1", "v2"):
        (project / name / "code").mkdir(parents=True)
        (project / name / "code/smk_near.py").write_text("")
        (project / name / "sf.json").write_text("1")
    identity = file_identity(project / "sf.json")

    def seen(version: str) -> tuple[Surroundings, list[str | None]]:
        monkeypatch.syspath_prepend(str(project / version / "code"))
        found = Surroundings(project, {}, beside=project / version)
        names = [
            found.way_to(f"{project}/{version}/sf.json", module) for module in ("smk_near", "")
        ]
        assert names == ["smk_near:../sf.json", ":sf.json"]
        near = [Observation("near", str(name), "my.op", identity) for name in names]
        return found, [found.identity(one) for one in near]

    assert seen("v1")[1] == seen("v2")[1] == [identity, identity]
    (project / "v2/sf.json").write_text("2")
    found, now = seen("v2")
    assert now == [file_identity(project / "v2/sf.json")] * 2
    assert found.way_to("/etc/hosts", "smk_near") is None


def test_a_file_that_jobs_write_counts_for_other_operations_only(project: Path) -> None:
    """Jobs of one operation write a log one after the other; one that reads it runs again."""
    build, launch = project / "build", Surroundings(project, {})
    readers = {
        by: observed.save(build, [Observation("file", "log", by, None)])
        for by in ("my.write", "my.read")
    }
    (project / "log").write_text("1")
    identity = file_identity(project / "log")
    observed.save(build, [Observation("written", "log", "my.write", identity)])
    named = NamedFiles([project]).knowing(observed.written(build, project))
    said = {
        by: Checks(build, launch, named).change({"observed": [digest]})
        for by, digest in readers.items()
    }
    assert said == {"my.write": None, "my.read": "log, read by my.read, was not there before"}


def test_observations_that_are_gone_or_damaged_count_as_a_change(
    change: Change, project: Path
) -> None:
    assert change(read("sf.json", project)) is None
    for path in (project / "build/smk/observed").iterdir():
        path.write_text(path.read_text().replace("sf.json", "xx.json"))
    assert change(read("sf.json", project)) == "the list of files that it read is missing"


def test_another_machine_may_have_another_file(
    change: Change, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A node's own files are no edits; one that is edited here later is."""
    path = tmp_path_factory.mktemp("etc") / "site.conf"
    path.write_text("of this machine")
    os.utime(path, (1, 1))
    node = Observation("file", str(path), "my.op", "of the node", "node:/usr")
    here = Observation("file", str(path), "my.op", "of the node", observed.machine())
    package = Observation("package", "numpy", "my_ops", "0.1", "/container")
    assert change(node, package) is None
    assert change(here) == f"{path}, read by my.op, has changed"
    os.utime(path, (3_000_000_000, 3_000_000_000))
    assert change(node) == f"{path}, read by my.op, has changed"
    path.unlink()
    assert change(node) is None


def test_a_file_has_the_same_name_wherever_the_project_lies(project: Path) -> None:
    surroundings = Surroundings(project, {})
    assert surroundings.name_of(str(project / "sub/sf.json")) == "sub/sf.json"
    assert surroundings.path_of("sub/sf.json") == str(project / "sub/sf.json")
    home = Path.home()
    assert surroundings.name_of(str(home / "sf.json")) == "~/sf.json"
    assert surroundings.path_of("~/sf.json") == str(home / "sf.json")


def test_values_of_variables_are_kept_as_digests_only(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SF_TEST", "a secret value")
    observed.start_environment.cache_clear()
    first = observed.keep_environment(project / "build")
    assert observed.keep_environment(project / "build") == first
    assert observed.environment_of(project / "build") == first
    path = project / "build" / layout.ENVIRONMENT
    assert "a secret value" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "HOME" not in first
    assert "SF_TEST" in first
    other = observed.keep_environment(project / "other")
    assert other["SF_TEST"] != first["SF_TEST"], "digests of two build folders tell nothing"
    observed.start_environment.cache_clear()


def test_the_whole_environment_is_what_a_run_was_started_with_but_for_ignored_ones(
    tmp_path: Path,
) -> None:
    every = Observation("variable", ALL, "my.op", None)

    def identity(*ignored: str, **variables: str) -> str | None:
        return Surroundings(tmp_path, variables, ignored).identity(every)

    assert identity(A="1", B="2") == identity(B="2", A="1")
    assert identity(A="1") != identity(A="2") != identity(A="2", B="1")
    assert identity("$CI_JOB_ID", A="1", CI_JOB_ID="7") == identity(A="1")


def test_the_folder_of_the_run_has_a_name_that_holds_elsewhere(tmp_path: Path) -> None:
    surroundings = Surroundings(tmp_path, {})
    assert surroundings.name_of(str(tmp_path)) == "."
    assert Path(surroundings.path_of(".")) == tmp_path
