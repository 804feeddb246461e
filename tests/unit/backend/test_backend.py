"""FAST-HEP's own loaders find the backend by its profile, and take its specification."""

from __future__ import annotations

from pathlib import Path

import pytest
from hepflow.backends import loaders
from hepflow.compiler.profiles import load_profile_config
from hepflow.model.plan import ExecutionPlan

from fasthep_smk.backend import Backend, run, strategy
from fasthep_smk.util.errors import Findings

REGISTRY = load_profile_config("fasthep_smk:registry", project_root=Path())["registry"]


@pytest.mark.parametrize("name", ["default", "local", "slurm", "htcondor"])
def test_each_strategy_is_the_backend(name: str) -> None:
    execution = {"backend": "snakemake", "strategy": name}
    loaders.validate_backend_execution(REGISTRY, execution)
    assert loaders.backend_build_directories(REGISTRY, execution) == ("smk",)
    plan = ExecutionPlan(registry=REGISTRY, execution=execution)
    assert isinstance(loaders.load_backend(plan), Backend)


def test_a_strategy_may_be_the_folder_of_a_site(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("executor: slurm\n")
    loaders.validate_backend_execution(
        REGISTRY, {"backend": "snakemake", "strategy": str(tmp_path)}
    )


def test_a_default_site_is_looked_for_by_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is the one beside the workflow, FAST-HEP does not say when it asks."""
    (tmp_path / "profiles/default").mkdir(parents=True)
    (tmp_path / "profiles/default/config.yaml").write_text("executor: pbs\n")
    monkeypatch.chdir(tmp_path)
    loaders.validate_backend_execution(REGISTRY, {"backend": "snakemake"})


def test_a_strategy_of_the_workflow_is_none_of_the_command_line() -> None:
    own = {"backend": "snakemake", "strategy": "slurm"}
    assert strategy.profile_of(own, said=own) is None
    assert strategy.profile_of(own, said={"strategy": "slurm"}) == "slurm"  # with --backend
    assert strategy.profile_of(own, said={**own, "strategy": "htcondor"}) == "slurm"
    assert strategy.profile_of({"backend": "snakemake", "strategy": "default"}, said=own) is None


def test_any_other_strategy_is_refused_by_its_name() -> None:
    said = r"--strategy: there is no such profile\n.*'slrm'(.|\n)*'slurm'\?"
    with pytest.raises(Findings, match=said):
        loaders.validate_backend_execution(REGISTRY, {"backend": "snakemake", "strategy": "slrm"})


def test_workers_of_dask_in_a_workflow_are_no_limit_of_ours() -> None:
    said = {"config": {"n_workers": 4}}
    assert run._workers({"config": {"n_workers": 4}}, said) is None
    assert run._workers({"config": {"n_workers": 2}}, said) == 2  # --workers 2
    assert run._workers({}, said) is None
