"""How many jobs of a pool Snakemake may have under way, with pilots and without."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fasthep_smk.executors.piloted import Piloted
from fasthep_smk.storage.pilots import Crews


def test_jobs_wait_for_pilots_in_any_number_but_not_without_them() -> None:
    """A pool of two workers; five of its jobs are under way when its pilots are given up."""
    pools = ["gpu"]
    executor: Any = object.__new__(Piloted)
    executor._pilots = SimpleNamespace(whole_pools=lambda: pools)
    executor._crews = Crews("slurm", tokens={"gpu": "pool_gpu"})
    executor._lifted = set()
    free = {"pool_gpu": 2, "pool_default": 3, "_nodes": 200}
    executor.set_limits(free)
    executor.set_limits(free)
    assert free["pool_gpu"] > 10**6
    assert (free["pool_default"], free["_nodes"]) == (3, 200)
    free["pool_gpu"] -= 5
    pools.clear()
    executor.set_limits(free)
    assert free["pool_gpu"] == -3  # none is chosen before four of them have ended
