"""However a batch job ends, its end is called by its name: all ends in one run."""

from __future__ import annotations

import json
import os
import re

import pytest

from tests.clusters.analyses import moody, set_mood, site
from tests.clusters.conftest import Cluster
from tests.clusters.test_sites import cluster, system
from tests.clusters.test_slurm import Run, as_root

__all__ = ["cluster", "system"]
pytestmark = [pytest.mark.integration, pytest.mark.cluster]

#: What the user reads of a job that ends so, by dataset.
ENDS = {
    "fault": r"signal 11 \(segmentation fault\)",
    "sys_exit": r"sys\.exit\(0\) was called: an operation must return or raise errors",
    "os_exit": r"its process ended with status 0 before its work was done, as by os\._exit\(0\)",
    "term": r"signal 15 \(terminated\): ended by a user or by the system",
}
#: Slurm's own limits are narrower here than what the job knows: it is Slurm that ends it.
OF_SLURM = {
    "term": rf"({ENDS['term']}|Slurm: FAILED, .*, signal 15 \(terminated\), node \w+)",
    "time": r"over its time limit, 00:10:00, of pool 'default' \(Slurm: TIMEOUT, .*\)",
    "memory": r"over its memory, 4 GB, of pool 'default' \(Slurm: .*\)",
}
SETTINGS = {"seconds-between-status-checks": 1}


@pytest.mark.parametrize("system", ["slurm", "htcondor"], indirect=True)
def test_each_end_has_its_name(cluster: Cluster, system: str) -> None:
    ends = ENDS | (OF_SLURM if system == "slurm" else {})
    folder = cluster.new_folder()
    pool = {"resources": {"memory": "4GB"}, "config": {"retries": 0, "walltime": "00:10:00"}}
    moody(folder, execution={}, pools={"default": pool}, datasets=dict.fromkeys(ends, 1))
    set_mood(folder, ends=dict(zip(ends, ends, strict=True)))
    sbatch = folder / "bin/sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text('#!/bin/sh\nexec /usr/bin/sbatch "$@" --time=1 --mem=900\n')
    sbatch.chmod(0o755)
    site(folder, {}, executor=system, **SETTINGS)
    path = f"{folder}/bin:{os.environ['PATH']}"
    run = Run(cluster, folder / "workflow.yaml", "-k", variables={"PATH": path})
    if system == "slurm":
        # The least time that Slurm knows is a minute: let this one be over now.
        note = run.until(lambda: next(folder.glob("build/smk/failures/*/time*.json"), None))
        job = json.loads(note.read_text())["batch_job"]
        as_root(cluster, "scontrol", "update", f"jobid={job}", "endtime=now")
    said = run.ended(1, seconds=400)
    assert "without an error message" not in said
    _, *told = re.split(r"\n(?=stage |rule )", said)
    assert len(told) == len(ends), said
    titles = {}
    for about in told:
        (name,) = re.findall(r"dataset: +(\w+)", about)
        titles[name] = about.splitlines()[0]
    wrong = [titles[one] for one in ends if not re.search(f" failed: {ends[one]}$", titles[one])]
    assert wrong == []
    (log,) = folder.glob("build/debug/distributed/logs/*/fault/*.attempt1.log")
    assert 'own_ops.py", line' in log.read_text()  # the Python stack
