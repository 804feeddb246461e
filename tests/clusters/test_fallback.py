"""A pool that does not come, on a real Slurm and a real HTCondor: jobs go to their fallback, once."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import analyses
from tests.clusters.conftest import Cluster
from tests.clusters.test_slurm import Run, local_run, slurms_record
from tests.support.compare import compare_builds

pytestmark = [pytest.mark.integration, pytest.mark.cluster]

HURRY = {
    "slurm": {
        "executor": "slurm",
        "seconds-between-status-checks": 1,
        "slurm-init-seconds-before-status-checks": 1,
    },
    "htcondor": {
        "executor": "htcondor",
        "seconds-between-status-checks": 1,
        "htcondor-held-timeout": 3,
    },
}
#: How the pools of the analysis are called in each system.
PLACES = {
    "slurm": {"gpu": {"partition": "gpu"}, "default": {"partition": "standard"}},
    "htcondor": {"gpu": {"requirements": 'Machine == "nowhere"'}, "default": {}},
}


def prepared(
    cluster: Cluster,
    system: str,
    *,
    after: str | int = "6s",
    gpu: dict[str, Any] | None = None,
    execution: dict[str, Any] | None = None,
    **mood: Any,
) -> Path:
    """A moody analysis of three jobs that prefer a pool ``gpu``; then one that does not."""
    folder = cluster.new_folder()
    pools = {
        "gpu": {"config": {"retries": 0}, **(gpu or {})},
        "default": {"resources": {"memory": "2GB"}, "config": {"retries": 0}},
    }
    needs = {"prefer": "gpu", "fallback": "default", "fallback_after": after, **(execution or {})}
    analyses.moody(folder, execution=needs, pools=pools)
    analyses.set_mood(folder, **mood)
    profiles = {name: {"config": {system: said}} for name, said in PLACES[system].items()}
    site = {"default": {"config": {"walltime": "00:10:00"}}, "pool_profiles": profiles}
    analyses.site(folder, site, **HURRY[system])
    return folder


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build folder of the analysis, run by ``fasthep run``."""
    folder = tmp_path_factory.mktemp("moody")
    workflow = analyses.moody(folder, execution={}, pools={"default": {}})
    return local_run(folder, workflow)


def tries(folder: Path) -> Counter[str]:
    """How often each file was begun, by pool and dataset."""
    path = folder / "tries.txt"
    return Counter(path.read_text().splitlines()) if path.exists() else Counter()


def moody(folder: Path) -> list[dict[str, Any]]:
    """The records of the jobs that prefer the pool."""
    return [one for one in analyses.records(folder / "build") if "Moody" in one["rule"]]


@contextmanager
def drained(slurm: Cluster, partition: str) -> Iterator[None]:
    """Start no job in a partition; it takes them."""
    try:
        set_state(slurm, partition, "down")
        yield
    finally:
        set_state(slurm, partition, "up")


def set_state(slurm: Cluster, partition: str, state: str) -> None:
    command = ["scontrol", "update", f"partitionname={partition}", f"state={state}"]
    subprocess.run(command, env={**os.environ, **slurm.env}, check=True, timeout=30)


def test_a_drained_partition_is_left_for_the_fallback(slurm: Cluster, reference: Path) -> None:
    """All three jobs wait for six seconds, and run at their first attempt, though none is left."""
    folder = prepared(slurm, "slurm")
    with drained(slurm, "gpu"):
        said = Run(slurm, folder / "workflow.yaml").ended()
    assert "3 jobs of stage_Moody waited 00:00:06 for pool gpu: now in pool default" in said
    assert "failed" not in said
    assert tries(folder) == {"default data": 2, "default dy": 1}
    for record in moody(folder):
        assert (record["attempt"], record["earlier"]) == (1, [])
        assert (record["asked"]["pool"], record["waited_for"]) == ("default", "gpu")
        assert slurms_record(slurm, record["batch_job"])["Partition"] == "standard"
    assert not compare_builds(reference, folder / "build")
