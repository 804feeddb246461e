"""Sizes that are measured, on real batch systems: jobs that nobody has sized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.translate.sizes import FIRST_MEMORY
from tests.clusters.analyses import given_away, records, site, start
from tests.clusters.conftest import Cluster
from tests.clusters.test_fallback import HURRY
from tests.clusters.test_htcondor import history
from tests.clusters.test_slurm import is_right, local_run, slurms_record
from tests.support import events

pytestmark = [pytest.mark.integration, pytest.mark.cluster]

GB = 10**9
FILES, WORKERS = 24, 3
#: Memory that grows with the events.
OPS = """\
import fcntl
import time
from pathlib import Path

SPEC = {"name": "own.grow", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}


def run(*, stream, ctx=None, **_):
    file = dict(ctx["partition"])["file"]
    with Path("begun.txt").open("a+") as begun:
        fcntl.flock(begun, fcntl.LOCK_EX)
        begun.write(f"{file}\\n")
        begun.seek(0)
        heavy = begun.read().split()[HEAVY - 1 : HEAVY] == [file]
    held = bytearray(BYTES * len(stream) + MORE * heavy)
    for start in range(0, len(held), 20_000_000):
        part = slice(start, start + 20_000_000, 4096)
        held[part] = b"1" * len(held[part])
        time.sleep(0.01)
    time.sleep(SECONDS)
    return stream
"""
#: Many jobs that take next to no processor time, of which all nodes share two cores; and a worker's
#: memory, of which one or two are all that a node has.
MANY, AT_ONCE = 200, 16
WORKER = {"slurm": "12GB", "htcondor": "7GB"}


#: Where jobs may go by their time, and where they go.
TIMES = {
    "slurm": {"partitions": {"highmem": "1d", "standard": "5m"}},
    "htcondor": {"flavours": {"day": "1d", "short": "5m"}},
}
PLACES = {"slurm": ("standard", "highmem"), "htcondor": ("short", "day")}


def growing(
    folder: Path,
    *,
    count: int = FILES,
    workers: int = WORKERS,
    memory: str | None = "4GB",
    sizes: str | None = "auto",
    seconds: float = 0.0,
    heavy: int = 21,
) -> Path:
    """An analysis of files of 40 to 270 events; nobody says what its jobs take.

    They ask for all the memory of a worker where ``sizes`` is ``None``; without a ``memory``, too,
    nobody says any amount. The job that begins as the ``heavy``-th takes 0.9 GB more, each time; 0:
    none.
    """
    ops = OPS.replace("BYTES", "4_000_000").replace("SECONDS", f"{seconds}")
    ops = ops.replace("HEAVY", f"{heavy}").replace("MORE", "900_000_000")
    (folder / "own_ops.py").write_text(ops)
    files = [f"data/{number}.root" for number in range(count)]
    for number, path in enumerate(files):
        events.zmumu_file(folder / path, 40 + 230 * (7 * number % count) // count, number)
    axis = {"name": "met", "source": "MET_px", "type": "regular"}
    bins = {"low": -50, "high": 50, "nbins": 20}
    hist = {"id": "Met", "op": "hep.hist", "params": {"axes": [{**axis, "bins": bins}]}}
    workflow = {
        "version": 1.0,
        "use": {"profiles": ["hep"]},
        "registry": {"transforms": {"own.grow": {"spec": "own_ops:SPEC", "impl": "own_ops:run"}}},
        "data": {
            "defaults": {"eventtype": "mc", "tree_primary": "events"},
            "datasets": [{"name": "dy", "files": files}],
        },
        "sources": {"events": {"kind": "root_tree", "tree": "events"}},
        "execution": {
            "config": {"sizes": sizes},
            "pools": {"default": {"workers": workers, "resources": {"memory": memory}}},
        },
        "smk": {"ignore_reads": ["begun.txt"]},
        "analysis": {"stages": [{"id": "Grow", "op": "own.grow"}, hist]},
    }
    (folder / "workflow.yaml").write_text(yaml.safe_dump(workflow))
    return given_away(folder) / "workflow.yaml"


@pytest.mark.long
@pytest.mark.parametrize("system", ["slurm", "htcondor"])
def test_jobs_that_nobody_has_sized(
    system: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    cluster: Cluster = request.getfixturevalue(system)
    reference = local_run(tmp_path, growing(tmp_path))
    folder = cluster.new_folder()
    workflow = growing(folder)
    site(folder, {"default": {"config": {"walltime": "00:10:00", **TIMES}}}, **HURRY[system])
    run = start(cluster, workflow, "--profile", "site", "--bundle", "1")
    said, _ = run.communicate(timeout=300)
    assert run.returncode == 0, said
    is_right(folder, reference)

    jobs = [one for one in records(folder / "build") if len(one["key"].split("/")) == 2]
    jobs.sort(key=lambda one: one["started"])
    assert len(jobs) == FILES
    # What the batch system was asked for is what the record says, and what the job was held to.
    for one in jobs:
        mebibytes = -(-one["asked"]["memory"] // 2**20)
        assert _asked(cluster, system, one["batch_job"]) in (
            f"{mebibytes}M",
            f"{mebibytes / 1024:g}G",
        )
    # Jobs that ask for less time go to the shorter partition, or have the shorter flavour.
    for one in jobs:
        short, long = PLACES[system]
        expected = short if one["asked"]["walltime"] <= 300 else long
        assert _place(cluster, system, one["batch_job"]) == expected
    assert any(one["asked"]["walltime"] <= 300 for one in jobs)
    whole = [one for one in jobs if one["asked"]["memory"] == 4 * GB and not one["earlier"]]
    assert 3 <= len(whole) <= 3 + 2 * WORKERS  # until three had ended, and what was on its way
    (heavy,) = (one for one in jobs if one["earlier"])
    # After that one, all others ask for more.
    sized = [one for one in jobs if one not in whole and one["started"] < heavy["started"]]
    assert len(sized) >= 10
    held, used = (sum(one[what]["memory"] for one in sized) for what in ("asked", "used"))
    assert held / used - 1 < 0.4
    # What has lacked memory got more of that, and of nothing else.
    assert [one["kind"] for one in heavy["earlier"]] == ["memory"]
    assert heavy["asked"]["memory"] >= 2 * heavy["earlier"][0]["memory"]
    times: set[Any] = {one["asked"]["walltime"] for one in sized}
    assert heavy["asked"]["walltime"] <= max(times) < 600


@pytest.mark.long
@pytest.mark.parametrize("system", ["slurm", "htcondor"])
def test_measured_jobs_share_nodes(system: str, request: pytest.FixtureRequest) -> None:
    """Two hundred partitions of unequal size, no amount said, beside a run with whole workers.

    They are alike, or that which begins as the 5th, 15th or 30th takes 0.9 GB more than its events
    explain.
    """
    cluster: Cluster = request.getfixturevalue(system)
    whole, _, longest = _many(cluster, system, 0, WORKER[system])
    for heavy in (0, 5, 15, 30):
        folder, jobs, span = _many(cluster, system, heavy, None)
        is_right(folder, whole / "build")
        first = min(jobs, key=lambda one: float(one["started"]))["asked"]["memory"]
        assert first == FIRST_MEMORY
        sized = [one for one in jobs if one["asked"]["memory"] != first and not one["earlier"]]
        assert len(sized) > MANY / 2
        held, used = (
            sum(one[what]["memory"] * (one["ended"] - one["started"]) for one in sized)
            for what in ("asked", "used")
        )
        again = sum(bool(one["earlier"]) for one in jobs)
        print(
            f"{system}, {heavy}: {len(sized)} sized, {held / used - 1:.2f} in vain, {again} tried "
            f"again, {span:.0f} s; whole workers: {longest:.0f} s"
        )
        assert held / used - 1 < 0.3
        assert again <= MANY // 20
        assert span < longest  # by how much: docs/benchmarks.md


def _many(
    cluster: Cluster, system: str, heavy: int, memory: str | None
) -> tuple[Path, list[dict[str, Any]], float]:
    """Run two hundred jobs; return the folder, their records and how long they took, in seconds."""
    folder = cluster.new_folder()
    of_all: dict[str, Any] = {"count": MANY, "workers": AT_ONCE, "seconds": 1.0, "heavy": heavy}
    workflow = growing(folder, memory=memory, sizes=None, **of_all)
    place = {"slurm": {"partition": "standard"}} if system == "slurm" else {}
    site(folder, {"default": {"config": place}}, **HURRY[system])
    run = start(cluster, workflow, "--profile", "site", "--bundle", "1")
    said, _ = run.communicate(timeout=1200)
    assert run.returncode == 0, said
    jobs = [one for one in records(folder / "build") if len(one["key"].split("/")) == 2]
    assert len(jobs) == MANY  # none is lost
    return folder, jobs, max(one["ended"] for one in jobs) - min(one["started"] for one in jobs)


def _asked(cluster: Cluster, system: str, job: str) -> str:
    """What a batch system says that a job has asked for."""
    if system == "slurm":
        return slurms_record(cluster, job)["MinMemoryNode"]
    return f"{history(cluster, [job])[job]['RequestMemory']}M"


def _place(cluster: Cluster, system: str, job: str) -> str:
    """The partition or flavour of a job, as its batch system says it."""
    if system == "slurm":
        return slurms_record(cluster, job)["Partition"]
    return str(history(cluster, [job])[job]["JobFlavour"])
