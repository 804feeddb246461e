"""``fasthep run --backend snakemake`` on real batch systems."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from fasthep_smk.backend.project_profile import enable
from tests.clusters.analyses import given_away, records, site, three_pools
from tests.clusters.conftest import Cluster
from tests.support import warm
from tests.support.compare import compare_builds

pytestmark = [pytest.mark.integration, pytest.mark.cluster, pytest.mark.long]

#: What pools are, as FAST-HEP's own compiler takes it: classes with amounts, by their names.
EXECUTION = {
    "resources": {
        "default": {"cpus": 1, "memory": "4GB"},
        "high_memory": {"cpus": 8, "memory": "128GB"},
        "gpu": {"gpus": 1, "memory": "16GB"},
    },
    "pools": {
        "default": {"resources": "default"},
        "high_memory": {"resources": "high_memory"},
        "gpu": {"resources": "gpu"},
    },
}
#: What each pool is in the batch systems of the tests.
WHERE = {
    "default": {"slurm": {"partition": "standard"}},
    "high_memory": {"slurm": {"partition": "highmem"}},
    "gpu": {"slurm": {"partition": "gpu"}},
}


@pytest.mark.parametrize("system", ["slurm", "htcondor"])
def test_stages_run_in_their_pools(system: str, request: pytest.FixtureRequest) -> None:
    cluster: Cluster = request.getfixturevalue(system)
    folder = cluster.new_folder()
    three_pools(folder)
    workflow = {"include": "analysis.yaml", "execution": EXECUTION}
    (folder / "workflow.yaml").write_text(yaml.safe_dump(workflow, sort_keys=False))
    pools = {"pool_profiles": {name: {"config": one} for name, one in WHERE.items()}}
    site(folder, pools, executor=system, **{"seconds-between-status-checks": 1})
    enable(folder)
    given_away(folder)
    done = cluster.run(
        "env",
        f"PYTHONPATH={folder}",  # where FAST-HEP's compiler finds operations.py
        Path(sys.executable).parent / "fasthep", "run", "workflow.yaml", "--outdir", "build",
        "--backend", "snakemake", "--strategy", "site", cwd=folder, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"

    found = records(folder / "build")
    assert {one["asked"]["pool"] for one in found} == set(WHERE)
    assert all(one["system"] == system and one["batch_job"] for one in found)
    told = yaml.safe_load((folder / "build/run_summary.yaml").read_text())
    assert json.dumps(told).count("snakemake") >= 1

    machine = {"machine": {"cpus": 16, "memory": "256GB", "gpus": 1}}
    here = site(folder, machine, executor="local")
    again = warm.run("workflow.yaml", "-o", "here", "--profile", str(here), cwd=folder)
    assert again.returncode == 0, again.stderr
    assert not compare_builds(folder / "here", folder / "build")
