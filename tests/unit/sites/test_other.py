"""Executors that we do not know: what their jobs get, and what is not offered."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from fasthep_smk import sites
from fasthep_smk.config.execution import load_site
from fasthep_smk.config.requests import Attempt, ResourceRequest
from fasthep_smk.config.site import Site
from fasthep_smk.sites.other import Other
from fasthep_smk.translate import profile
from fasthep_smk.translate.placement import place
from fasthep_smk.util import executor_plugins as plugins
from fasthep_smk.util.errors import Findings, UsageError
from tests.unit.config.test_execution import read, rules
from tests.unit.sites.test_sites import rendered

LSF = "snakemake_executor_plugin_lsf"


@pytest.fixture(autouse=True)
def lsf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A plugin for LSF that is installed, of which fasthep-smk has never heard."""
    module = tmp_path / "installed" / f"{LSF}.py"
    module.parent.mkdir()
    module.write_text("")
    monkeypatch.syspath_prepend(module.parent)
    monkeypatch.delitem(sys.modules, LSF, raising=False)
    sites.system.cache_clear()
    yield module
    sys.modules.pop(LSF, None)
    sites.system.cache_clear()


def site_of(folder: Path, executor: str = "lsf", **more: object) -> Site:
    (folder / "config.yaml").write_text(yaml.safe_dump({"executor": executor, **more}))
    return load_site(str(folder), "local", workflow="")


def test_a_job_gets_the_resources_that_every_plugin_knows(tmp_path: Path) -> None:
    request = ResourceRequest(cpus=4, memory=8 * 10**9, disk=10**9, gpus=1, walltime=3600)
    attempt = Attempt("large", request, {"executor": {"lsf_project": "atlas"}})
    placement = profile.Placement(site_of(tmp_path), {"large": 5}, {"stage_A": (attempt,)})
    settings = rendered(placement, attempt)
    assert settings["executor"] == "lsf"
    assert settings["resources"] == {"pool_large": 5}  # the workers of the pool
    own: Any = settings["set-resources"]
    assert own["stage_A"] == {"pool_large": 1, "lsf_project": '"atlas"'}
    assert sites.common_resources(attempt) == {
        "mem_mb": 8000, "disk_mb": 1000, "runtime": 60, "gpu": 1,
        # Which others do not look at.
        "htcondor_request_mem_mb": 7630, "htcondor_request_disk_mb": 954, "request_gpus": 1,
    }  # fmt: skip
    assert sites.system("lsf").RETRIES == 2


def test_a_plugin_that_is_not_installed_is_named(tmp_path: Path) -> None:
    assert plugins.is_installed("lsf")
    with pytest.raises(Findings, match="pip install snakemake-executor-plugin-lfs"):
        site_of(tmp_path, "lfs")


@pytest.mark.parametrize("name", ["os", "slurm-jobstep/..", "", "Lsf"])
def test_a_name_is_not_taken_for_a_module(name: str) -> None:
    assert not plugins.is_installed(name)


def test_what_is_not_offered_is_said_in_one_sentence_each(tmp_path: Path) -> None:
    said = yaml.safe_load("""
        config.yaml: "executor: lsf"
        execution: {pools: {gpu: {fallback_after: 30m, config: {pilot: true}}}}
        stage: {prefer: gpu, fallback: default}
        """)
    execution, findings = read(said, tmp_path)
    assert execution is not None, findings
    placement, wrong, notes = place(rules(execution, said["stage"]), execution)
    assert not wrong
    assert notes == [
        "executor 'lsf' is not one that fasthep-smk knows: its Snakemake plugin gets threads, "
        "mem_mb, disk_mb, runtime and gpu of each job, and config.executor of its pool. "
        "fasthep-smk does not say why its jobs wait, and does not take over jobs that a killed run "
        "leaves in the queue.",
        "no pilots: executor 'lsf' does not support pilots: each job is a batch job",
        "fallback_after has no effect: executor 'lsf' cannot remove a waiting job from its queue",
    ]
    assert not placement.fallback_after
    assert not placement.attempts["stage_A"][0].pilot


def test_jobs_are_not_sent_their_files(tmp_path: Path) -> None:
    said = {"config.yaml": "executor: lsf", "pools.yaml": "staging: {mode: transfer}"}
    _, findings = read(said, tmp_path)
    said = "fasthep-smk cannot send files to jobs of executor 'lsf'"
    assert [one.problem for one in findings] == [said]


def test_an_executor_whose_jobs_see_no_files_of_ours_is_refused(lsf: Path, tmp_path: Path) -> None:
    lsf.write_text("class common_settings:\n    implies_no_shared_fs = True\n")
    (found,) = Other("lsf").problems([], site_of(tmp_path))
    assert found.problem == "this executor's jobs do not see the files of this machine"
    assert not [*Other("lsf").problems([], site_of(tmp_path, **{"shared-fs-usage": "none"}))]


class Lsf(Other):
    """What a package may say of LSF."""

    LISTS_JOBS = True


def named(monkeypatch: pytest.MonkeyPatch, made: object) -> None:
    """Let an installed package name this for LSF."""
    point = SimpleNamespace(load=lambda: made, value="my_lsf:Lsf")
    monkeypatch.setattr(metadata, "entry_points", lambda **asked: [point] if asked else [])


def test_a_package_says_what_it_knows_of_an_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sites.unknown("lsf") == "executor 'lsf' cannot tell what is in its queue"
    sites.system.cache_clear()
    named(monkeypatch, Lsf)
    assert isinstance(sites.system("lsf"), Lsf)
    assert sites.unknown("lsf") == "lsf does not answer"
    assert "does not say why its jobs wait" not in " ".join(sites.system("lsf").notes())


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (dict, "ValueError: dictionary update sequence"),
        (str, "is not a class that is derived from fasthep_smk.sites.other.Other"),
    ],
)
def test_a_package_that_says_something_else_is_named(
    made: object, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    named(monkeypatch, made)
    with pytest.raises(UsageError, match=f"'lsf' of 'fasthep_smk.sites' .*{message}"):
        sites.system("lsf")


def test_a_plugin_that_is_gone_is_named_with_what_installs_it(lsf: Path) -> None:
    lsf.unlink()
    importlib.invalidate_caches()
    with pytest.raises(UsageError, match="pip install snakemake-executor-plugin-lsf"):
        sites.require_plugin("lsf")
