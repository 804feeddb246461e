"""Jobs on nodes that share nothing with the submit side: neither files nor Python, by HTCondor."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import analyses
from tests.clusters.conftest import Cluster
from tests.clusters.test_htcondor import (
    EXPECTED,
    SETTINGS,
    Run,
    history_by_rule,
    local_run,
    prepare_moody,
)
from tests.support.compare import compare_builds

pytestmark = [pytest.mark.integration, pytest.mark.cluster]

#: Where nodes keep environments; a folder of their own, which no job's end removes.
CACHE = "/var/tmp/fasthep-smk-cache"
#: On HTCondor's own Debian: the job sees no file of this machine.
BARE = {"classads": {"BareNode": True}, "environment": f"FASTHEP_SMK_CACHE={CACHE}"}
SITE: dict[str, Any] = {
    "default": {"config": {"htcondor": BARE}},
    "environment": {"type": "packed-venv"},
    "staging": {"mode": "transfer"},
}


def on_the_node(htcondor: Cluster, path: str) -> Path:
    """A path as the nodes see it."""
    found = subprocess.run(["pgrep", "-f", "condor_master -f"], capture_output=True, text=True)
    roots = [Path(f"/proc/{pid}/root") for pid in found.stdout.split()]
    mine = [root for root in roots if (root / str(htcondor.folder)[1:] / "run").is_dir()]
    return next(root for root in mine if (root / "machine").is_dir()) / path[1:]


def unpacked(htcondor: Cluster) -> dict[str, int]:
    """How often the nodes have unpacked an environment, and found one."""
    log = on_the_node(htcondor, f"{CACHE}/log")
    lines = log.read_text().splitlines() if log.exists() else []
    return {word: sum(word in line for line in lines) for word in ("extracted", "found")}


def test_three_pools_with_an_op_of_ones_own(htcondor: Cluster) -> None:
    """Each job runs on a slot of its pool that knows nothing of us, and the results are those of
    this machine. A node unpacks the environment once, also for a second run."""
    folder = htcondor.new_folder()
    analyses.three_pools(folder)
    analyses.site(folder, SITE, **SETTINGS)
    before = unpacked(htcondor)
    said = Run(htcondor, folder).ended(seconds=300)
    assert "packed and tested in" in said
    by_rule = history_by_rule(htcondor, folder, but=("finish",))
    assert set(by_rule) == set(EXPECTED) - {"finish"}
    for rule, ads in by_rule.items():
        assert len(ads) == EXPECTED[rule][0]
        assert all(ad["LastRemoteHost"].startswith(f"{EXPECTED[rule][1]}_") for ad in ads)
        assert all(ad["BareNode"] is True for ad in ads)
    local_run(folder, "inline.yaml", "local", "--shrink-to-fit")
    assert not compare_builds(folder / "local", folder / "build")
    build = folder / "build"
    assert not [path for path in (build / "smk/transfer").rglob("*") if path.is_file()]
    after = unpacked(htcondor)
    assert after["extracted"] == before["extracted"] + 1
    assert after["found"] >= before["found"] + 11

    edited = Run(htcondor, folder, "--chunk-size", "300").ended(seconds=300)
    assert "packing" not in edited
    assert unpacked(htcondor)["extracted"] == after["extracted"]


def test_an_op_that_fails_is_named_as_at_home(htcondor: Cluster) -> None:
    folder = htcondor.new_folder()
    prepare_moody(folder, 1, {}, {"default": {"resources": {"memory": "2GB"}}})
    op = folder / "own_ops.py"
    op.write_text(op.read_text().replace("def run(", "def run_(") + FAILS)
    analyses.site(folder, SITE, **{**SETTINGS, "retries": 0})
    said = Run(htcondor, folder).ended(1, seconds=300)
    assert "stage 'Moody' (own.moody) failed: ValueError: no such muon" in said
    assert "data/data_0.root" in said
    log = next((folder / "build/debug/distributed/logs").rglob("data/*.log"))
    assert "no such muon" in log.read_text()
    assert "fasthep-smk-job-" not in log.read_text()


FAILS = """

def run(*, stream, **_):
    raise ValueError("no such muon")
"""
WORKS = """

def run(*, stream, **_):
    return stream
"""


def test_a_parcel_damaged_on_its_way_is_sent_again(htcondor: Cluster) -> None:
    """That is no failure of the job: it is still its first attempt."""
    folder = htcondor.new_folder()
    prepare_moody(folder, 1, {}, {"default": {"resources": {"memory": "2GB"}}})
    op = folder / "own_ops.py"
    op.write_text(op.read_text().replace("def run(", "def run_(") + WORKS)
    analyses.site(folder, SITE, **{**SETTINGS, "retries": 0})
    run = Run(htcondor, folder)
    depot = folder / "build/smk/transfer"
    end = time.monotonic() + 200
    while not (sent := [path for path in depot.rglob("*.parcel.tar") if path.name[0] != "."]):
        assert time.monotonic() < end, run.said
        time.sleep(0.01)
    with sent[0].open("r+b") as stream:
        stream.seek(-3000, 2)
        stream.write(b"damaged")
    said = run.ended(seconds=300)
    assert "sent again: " in (folder / "build/debug/distributed/snakemake.log").read_text()
    assert "failed" not in said
    record = next(one for one in analyses.records(folder / "build") if one["rule"] != "finish")
    assert (record["attempt"], record["earlier"]) == (1, [])
