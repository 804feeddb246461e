"""Jobs that a batch system has not taken, told once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fasthep_smk.run.what_failed import of_refused
from fasthep_smk.sites import System
from fasthep_smk.sites.htcondor import HTCondor
from fasthep_smk.sites.slurm import Slurm
from fasthep_smk.storage import layout
from tests.support import tables

SAID = (
    "could not be submitted: Batch job submission failed: Invalid account or account/partition "
    "combination specified"
)


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """A build folder with a rule of three partitions, in pool ``cpu``."""
    (tmp_path / "smk/tasks").mkdir(parents=True)
    jobs = {
        f"{dataset}/{n}_0": tables.entry(
            dataset=dataset,
            partition={
                "id": f"{dataset}:{n}", "dataset": dataset, "file": f"{dataset}_{n}.root",
                "source": "events", "part": f"{n}_0", "start": 0, "stop": 50,
            },
        )
        for dataset, n in (("data", 0), ("data", 1), ("dy", 0))
    }  # fmt: skip
    (tmp_path / layout.table("r")).write_text(tables.table(jobs=jobs).to_text())
    requests = {"system": "slurm", "rules": {"r": [{"pool": "cpu"}]}}
    (tmp_path / layout.REQUESTS).write_text(json.dumps(requests))
    return tmp_path


def test_datasets_file_and_fix_stand_beside_the_sentence(build: Path) -> None:
    logs = [layout.log("r", key.split("/")) for key in ("data/0_0", "data/1_0", "dy/0_0")]
    assert of_refused(SAID, logs, build, Slurm()) == (
        f"3 jobs {SAID}\n"
        "    dataset:   data, dy\n"
        "    file:      data_0.root (entries 0 to 50) and 2 more\n"
        "    where:     pool 'cpu'\n"
        "    fix:       config: {slurm: {account: ACCOUNT}} in the pool, or in the site's "
        "pools.yaml; 'sacctmgr show associations user=$USER format=account%30,partition,qos%40' "
        "lists your accounts"
    )


def test_what_cannot_be_looked_up_leaves_the_sentence(tmp_path: Path) -> None:
    log = layout.log("r", ["dy", "0_0"])
    said = "could not be submitted: no reason given"
    assert of_refused(said, [log], tmp_path, HTCondor()) == f"a job {said}"


@pytest.mark.parametrize(
    ("system", "said", "key"),
    [
        (Slurm, "invalid partition specified: nowhere", "slurm: {partition: NAME}"),
        (Slurm, "Batch job submission failed: Invalid qos specification", "slurm: {qos: QOS}"),
        (Slurm, "Invalid feature specification", "slurm: {constraint: FEATURE}"),
        (Slurm, "Requested time limit is invalid", 'walltime: "01:00:00"'),
        (
            Slurm,
            "QOSMaxWallDurationPerJobLimit Batch job submission failed: Job violates "
            "accounting/QOS policy (job submit limit, user's size and/or time limits)",
            'walltime: "01:00:00"',
        ),
        (Slurm, "do not use --mem here, memory follows from the cpus", "sizes: fixed"),
        (Slurm, "Requested node configuration is not available", "smaller resources"),
        (Slurm, "Invalid generic resource (gres) specification", "slurm: {gres: NAME:COUNT}"),
        (HTCondor, "Parse error in Requirements", "htcondor: {requirements: EXPRESSION}"),
        (HTCondor, "AccountingGroup is not yours", "htcondor: {accounting_group: GROUP}"),
    ],
)
def test_the_fix_names_the_key(system: type[System], said: str, key: str) -> None:
    assert key in (system().remedy(said) or "")
