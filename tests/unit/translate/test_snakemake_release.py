"""Snakemake 10: what would mean another thing there is refused, and nothing is written for it."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.config.environment import Environment
from fasthep_smk.config.site import Site
from fasthep_smk.flow import patches
from fasthep_smk.flow.patches import Patch
from fasthep_smk.translate import snakemake_release
from fasthep_smk.translate.placement import place
from tests.unit.config.test_execution import read, rules

IMAGE = Environment("container", "current", "pools.yaml", "docker://python")


@pytest.fixture
def ten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The installed Snakemake says that it is 10."""
    version = metadata.version

    def other(name: str) -> str:
        return "10.0.1" if name == "snakemake" else version(name)

    monkeypatch.setattr(metadata, "version", other)


def findings(environment: Environment | None, **settings: Any) -> list[str]:
    found = snakemake_release.findings(environment, Site("slurm", settings=settings))
    return [str(one) for one in found]


def test_the_installed_one_is_as_the_pin_says() -> None:
    """9: what is written for it is what it reads."""
    assert not snakemake_release.is_by_plugins()
    assert findings(IMAGE, **{"use-conda": True}) == []


@pytest.mark.usefixtures("ten")
def test_a_container_is_refused_in_10() -> None:
    (message,) = findings(IMAGE)
    assert message == (
        "pools.yaml: environment.type: containers cannot be used with this Snakemake: "
        "Snakemake 10.0.1\n"
        "    found: 'container'\n"
        "    expected: Snakemake 9: from 10 on its plugins decide what a container is\n"
        "    hint: pip install 'snakemake<10'"
    )
    assert findings(None) == []


@pytest.mark.usefixtures("ten")
@pytest.mark.parametrize("name", ["software-deployment-method", "use_conda", "apptainer-args"])
def test_an_option_with_another_meaning_is_refused_in_10(name: str) -> None:
    (message,) = findings(None, **{name: "x", "jobs": 3})
    assert message.startswith(f"{name}: has another meaning with this Snakemake")


@pytest.mark.usefixtures("ten")
def test_what_we_change_has_to_be_there_in_10(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = Patch(("snakemake.scheduling.job_scheduler:JobScheduler.moved",), *["x"] * 6)
    monkeypatch.setattr(patches, "MOVED", moved, raising=False)
    (message,) = findings(None)
    assert (
        "Snakemake 10.0.1 has no snakemake.scheduling.job_scheduler:JobScheduler.moved" in message
    )


@pytest.mark.usefixtures("ten")
def test_a_run_is_refused_before_its_first_job(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    said = yaml.safe_load("""
        config.yaml: "{executor: slurm, use-conda: true}"
        stage: {}
        """)
    execution, wrong = read(said, tmp_path)
    assert execution is not None, wrong
    _, found, _ = place(rules(execution, said["stage"]), execution)
    assert [one.key for one in found] == ["use-conda"]


def test_the_options_of_a_container_are_laid_over_those_of_the_site() -> None:
    made = snakemake_release.container_settings(
        [Path("/a b"), Path("/c"), Path("/c")], {"apptainer-args": "--nv"}
    )
    assert made == {
        "software-deployment-method": ["apptainer"],
        "apptainer-args": "--bind '/a b' --bind /c --nv",
    }
