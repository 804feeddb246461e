"""Which site a run takes that names none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fasthep_smk.config.execution import load_site
from fasthep_smk.config.site import split_options, with_options
from fasthep_smk.util.errors import Findings
from fasthep_smk.util.ownership import problem_of


def make_profile(folder: Path, executor: str = "slurm") -> Path:
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(f"executor: {executor}\n")
    return folder


@pytest.fixture
def workflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A workflow, where nothing says where it runs."""
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "mine"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "ours"))
    (tmp_path / "analysis").mkdir()
    (tmp_path / "analysis/workflow.yaml").touch()
    return str(tmp_path / "analysis/workflow.yaml")


def test_the_nearest_site_is_taken(
    tmp_path: Path, workflow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of these comes before those above it."""

    def taken(strategy: str = "default") -> str:
        return load_site(None, strategy, workflow=workflow).why

    assert taken() == "execution.strategy: default"
    for place in ("ours/snakemake/default", "mine/snakemake/default"):
        folder = make_profile(tmp_path / place)
        assert taken() == str(folder)
    assert taken("htcondor") == "execution.strategy: htcondor"
    assert taken("threads") == "execution.strategy: threads"
    beside = make_profile(tmp_path / "analysis/profiles/default")
    assert taken() == taken("htcondor") == str(beside)
    named = make_profile(tmp_path / "named")
    monkeypatch.setenv("SNAKEMAKE_PROFILE", str(named))
    assert taken() == taken("htcondor") == f"SNAKEMAKE_PROFILE {named}"
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "none")
    assert taken() == str(beside)
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "htcondor")
    found = load_site(None, "default", workflow=workflow)
    assert (found.system, found.folder) == ("htcondor", None)


def test_the_command_line_is_first(
    tmp_path: Path, workflow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_profile(tmp_path / "analysis/profiles/default")
    make_profile(tmp_path / "mine/snakemake/default")
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "slurm")
    found = load_site("local", "slurm", workflow=workflow)
    assert (found.system, found.why) == ("local", "--profile local")


def test_a_folder_that_is_no_profile_is_passed_over(tmp_path: Path, workflow: str) -> None:
    """FAST-HEP's own profiles are in ``profiles``, too."""
    (tmp_path / "analysis/profiles/default").mkdir(parents=True)
    (tmp_path / "analysis/profiles/default/hep.yaml").touch()
    assert load_site(None, "default", workflow=workflow).folder is None


def test_what_the_environment_names_and_is_not_there(
    workflow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "slrum")
    with pytest.raises(Findings) as error:
        load_site(None, "default", workflow=workflow)
    (finding,) = error.value.findings
    assert (finding.key, finding.problem) == ("SNAKEMAKE_PROFILE", "there is no such profile")
    assert finding.hint == "did you mean 'slurm'? (or run on this machine: --profile local)"


def test_a_default_that_is_wrong_is_named_with_a_way_around_it(
    tmp_path: Path, workflow: str
) -> None:
    folder = make_profile(tmp_path / "mine/snakemake/default", executor="pbs")
    with pytest.raises(Findings) as error:
        load_site(None, "default", workflow=workflow)
    (finding,) = error.value.findings
    assert finding.file == str(folder / "config.yaml")
    assert "--profile local" in str(finding.hint)
    with pytest.raises(Findings) as error:
        load_site(str(folder), "default", workflow=workflow)
    assert "--profile local" not in str(error.value)


def test_the_environment_may_name_the_file_of_a_profile(
    tmp_path: Path, workflow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_profile(tmp_path / "named")
    monkeypatch.setenv("SNAKEMAKE_PROFILE", str(folder / "config.yaml"))
    assert load_site(None, "default", workflow=workflow).folder == folder


def test_who_has_chosen_a_site_is_known_whatever_it_is_called(
    tmp_path: Path, workflow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path of a default site may begin as the words for another origin do."""
    assert load_site(None, "slurm", workflow=workflow).origin == "strategy"
    assert load_site("local", "slurm", workflow=workflow).origin == "option"
    make_profile(tmp_path / "execution_tests/profiles/default")
    monkeypatch.chdir(tmp_path)
    found = load_site(None, "default", workflow="execution_tests/workflow.yaml")
    assert (found.origin, found.why) == ("default", "execution_tests/profiles/default")


@pytest.mark.parametrize("place", ["profiles", "profiles/default", "profiles/default/config.yaml"])
def test_what_others_may_write_is_refused_if_nobody_has_named_it(
    tmp_path: Path, workflow: str, place: str
) -> None:
    folder = make_profile(tmp_path / "analysis/profiles/default")
    opened = tmp_path / "analysis" / place
    opened.chmod(opened.stat().st_mode | 0o002)
    assert problem_of(opened, Path(workflow)) is not None
    with pytest.raises(Findings) as error:
        load_site(None, "default", workflow=workflow)
    (finding,) = error.value.findings
    assert finding.file == str(opened)
    assert f"chmod -R go-w {opened}" in str(finding.hint)
    assert load_site(str(folder), "default", workflow=workflow).system == "slurm"


def test_without_a_home_there_is_no_default(workflow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert load_site(None, "default", workflow=workflow).why == "execution.strategy: default"


def test_options_that_a_profile_has_too_are_laid_over_it(tmp_path: Path) -> None:
    """Snakemake would take them in place of all that the profile says there."""
    words = "--set-resources a:mem_mb=5 b:x=y -k --res pool_x=3 --until a --set-threads a=2"
    options, others = split_options(words.split())
    assert others == ["-k", "--until", "a"]
    written = {"set_resources": ["a:mem_mb=4", "a:runtime=1"], "resources": {"gpu": 1}}
    (tmp_path / "config.yaml").write_text(json.dumps(written))
    site = with_options(load_site(str(tmp_path), "local", workflow="workflow.yaml"), options)
    assert site.settings == {
        "set-resources": {"a": {"mem_mb": 5, "runtime": 1}, "b": {"x": "y"}},
        "resources": {"gpu": 1, "pool_x": 3},
        "set-threads": {"a": 2},
    }


def test_of_an_amount_one_spelling_stays(tmp_path: Path) -> None:
    """Snakemake refuses two of them."""
    (tmp_path / "config.yaml").write_text(json.dumps({"default-resources": {"mem_mb": 1, "a": 2}}))
    site = load_site(str(tmp_path), "local", workflow="workflow.yaml")
    options, _ = split_options(["--default-res", "mem=4GB", "-C", "x=1"])
    found = with_options(site, options).settings
    assert found == {"default-resources": {"a": 2, "mem": "4GB"}, "config": {"x": 1}}


@pytest.mark.parametrize("words", ["--set-resources mem_mb=5", "--resources gpu", "--config =x"])
def test_an_option_that_is_no_assignment_is_refused(words: str) -> None:
    with pytest.raises(ValueError, match="not of the form"):
        split_options(words.split())
