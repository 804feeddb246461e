"""Jobs on nodes that share nothing with the submit side: neither files nor Python."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.storage import layout
from tests.clusters import analyses
from tests.clusters.conftest import Cluster, cluster
from tests.clusters.test_htcondor import (
    EXPECTED,
    SETTINGS,
    Run,
    history_by_rule,
    local_run,
    prepare_moody,
    queue,
    running,
)
from tests.support import credentials
from tests.support.compare import compare_builds
from tests.support.forms import some
from tests.support.project import once, shared_base
from tests.support.tokens import token_server

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
    config = f"CONDOR_CONFIG={htcondor.folder}/daemons_config".encode()
    mine = [root for root in roots if config in (root.parent / "environ").read_bytes().split(b"\0")]
    return next(root for root in mine if (root / "machine").is_dir()) / path[1:]


def unpacked(htcondor: Cluster) -> dict[str, int]:
    """How often the nodes have unpacked an environment, and found one."""
    log = on_the_node(htcondor, f"{CACHE}/log")
    lines = log.read_text().splitlines() if log.exists() else []
    return {word: sum(word in line for line in lines) for word in ("extracted", "found")}


@dataclass(frozen=True)
class FirstRun:
    """A run of the three pools: its folder, what it said, and ``unpacked`` before and after it."""

    folder: Path
    said: str
    before: dict[str, int]
    after: dict[str, int]


@pytest.fixture(scope="session")
def first_run(htcondor: Cluster, tmp_path_factory: pytest.TempPathFactory) -> FirstRun:
    """Once for all tests on one HTCondor, for it packs an environment, which takes a while."""

    def make(place: Path) -> None:
        folder = htcondor.new_folder()
        analyses.three_pools(folder, each=1)
        with (folder / "operations.py").open("a") as operations:
            operations.write(ASKS)
        analyses.site(folder, SITE, **SETTINGS)
        before = unpacked(htcondor)
        said = Run(htcondor, folder).ended(seconds=300)
        place.write_text(json.dumps([str(folder), said, before, unpacked(htcondor)]))

    started = (htcondor.folder / "run/supervisor.pid").read_text().split()[0]
    place = once(shared_base(tmp_path_factory) / f"first-run-{started}", make)
    folder, *more = json.loads(place.read_text())
    return FirstRun(Path(folder), *more)


@pytest.mark.waits
def test_three_pools_with_an_op_of_ones_own(htcondor: Cluster, first_run: FirstRun) -> None:
    """Each job runs on a slot of its pool that knows nothing of us, and the results are those of
    this machine. A node unpacks the environment once, also for a second run."""
    folder, before, after = first_run.folder, first_run.before, first_run.after
    assert "packed and tested in" in first_run.said
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
    assert after["extracted"] == before["extracted"] + 1
    assert after["found"] >= before["found"] + 5

    analysis = folder / "analysis.yaml"
    analysis.write_text(analysis.read_text().replace("nbins: 50", "nbins: 25"))
    edited = Run(htcondor, folder).ended(seconds=300)
    assert "2 x stages_Muons_to_MuonPt" in edited
    assert "packing" not in edited
    assert unpacked(htcondor)["extracted"] == after["extracted"]


@pytest.mark.long
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


@pytest.mark.long
def test_jobs_of_a_killed_run_are_cancelled(htcondor: Cluster) -> None:
    """What they would send back, nobody awaits."""
    folder = htcondor.new_folder()
    prepare_moody(folder, 1, {}, {"default": {"resources": {"memory": "2GB"}}})
    op = folder / "own_ops.py"
    slow = "def run(*, stream, **_):\n    time.sleep(20)\n    return stream\n"
    op.write_text(op.read_text().replace("def run(", "def run_(") + slow)
    analyses.site(folder, SITE, **SETTINGS)
    run = Run(htcondor, folder)
    run.until(lambda: running(htcondor, folder), 300)
    [job] = queue(htcondor, folder)
    lock = json.loads((folder / "build/smk/lock").read_text())
    run.process.kill()
    os.kill(lock["snakemake"], signal.SIGKILL)
    run.process.wait(timeout=10)
    again = Run(htcondor, folder)
    again.until(lambda: "1 job of an earlier run cancelled: jobs in transfer mode" in again.said)
    assert job not in queue(htcondor, folder)
    again.ended(seconds=300)


@pytest.fixture(scope="module")
def bare_slurm() -> Iterator[Cluster]:
    """A Slurm whose nodes see nothing but a spool."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FASTHEP_SMK_TEST_BARE", "1")
        with cluster("slurm", {"SLURM_CONF": "etc/slurm.conf"}, name="bare-slurm") as running:
            yield running


@pytest.mark.long
def test_three_pools_of_slurm(bare_slurm: Cluster) -> None:
    """The nodes find what they are sent in the spool, and leave what they made there."""
    folder = bare_slurm.new_folder()
    analyses.three_pools(folder)
    spool = bare_slurm.folder / "spool"
    pools = {
        "environment": {"type": "packed-venv"},
        "staging": {"mode": "transfer", "folder": str(spool)},
        "pool_profiles": {
            "high_memory": {"config": {"slurm": {"partition": "highmem"}}},
            "gpu": {"config": {"slurm": {"partition": "gpu"}}},
        },
    }
    analyses.site(folder, pools, **SLURM)
    bare = bare_slurm.run("srun", "sh", "-c", f"ls {folder} || ls {analyses.FASTHEP_SMK}")
    assert bare.returncode != 0
    said = Run(bare_slurm, folder).ended(seconds=400)
    assert "13 jobs done" in said
    records = analyses.records(folder / "build")
    shown = {
        r["rule"]: bare_slurm.run("scontrol", "show", "job", r["batch_job"]).stdout
        for r in records
        if r["batch_job"]
    }
    assert set(shown) == set(EXPECTED) - {"finish"}
    for rule, node in NODES.items():
        assert f" BatchHost={node}" in shown[rule].replace("\n", " ")
    local_run(folder, "inline.yaml", "local", "--shrink-to-fit")
    assert not compare_builds(folder / "local", folder / "build")
    left = {path.name for path in spool.rglob("*") if path.is_file() and "out" not in path.parts}
    assert {name.partition("-")[0] for name in left} == {"node.sh", "packed"}
    (mine,) = spool.glob("fasthep-smk-*")
    assert mine.stat().st_mode & 0o777 == 0o700


#: Where the jobs of a rule have to run.
NODES = {"stage_BuildIndex": "big1", "stage_RunInference": "gpu1", "stages_Muons_to_MuonPt": "std"}
SLURM = {
    "executor": "slurm",
    "seconds-between-status-checks": 1,
    "slurm-init-seconds-before-status-checks": 1,
}
#: What is added to the ops of the three pools.
ASKS = """

import os
import time
import urllib.request
from pathlib import Path

ASKS_SPEC = {"name": "own.asks", "kind": "transform", "params": {},
             "input": {"name": "stream", "kind": "event_stream", "required": True},
             "result": {"kind": "event_stream"}}


def asks(*, stream, address, **_):
    mine = Path(os.environ["BEARER_TOKEN_FILE"])
    print("modes", *(oct(path.stat().st_mode & 0o777) for path in (mine, mine.parent)))
    header = {"Authorization": f"Bearer {mine.read_text()}"}
    urllib.request.urlopen(urllib.request.Request(address, headers=header)).read()
    time.sleep(3)  # somebody looks who is there
    return stream
"""


def asking(folder: Path, address: str) -> None:
    """An analysis of one job whose op asks a server; with the ops of the three pools."""
    workflow = analyses.moody(
        folder,
        execution={},
        pools={"default": {"resources": {"memory": "2GB"}}},
        datasets={"data": 1},
    )
    (folder / "own_ops.py").unlink()
    shutil.copy(analyses.ROOT / "workflow/pools/operations.py", folder)
    with (folder / "operations.py").open("a") as operations:
        operations.write(ASKS)
    content = yaml.safe_load(workflow.read_text())
    entry = {"spec": "operations:ASKS_SPEC", "impl": "operations:asks"}
    content["registry"] = {"transforms": {"own.asks": entry}}
    stage = {"id": "Moody", "op": "own.asks", "params": {"address": address}}
    content["analysis"]["stages"][0] = stage
    workflow.write_text(yaml.safe_dump(content))


@pytest.fixture(params=some(["htcondor", "bare_slurm"], 1))
def node(request: pytest.FixtureRequest) -> tuple[Cluster, dict[str, Any], dict[str, Any]]:
    """A cluster whose nodes share nothing, with a site's pools and settings for it."""
    found: Cluster = request.getfixturevalue(request.param)
    if request.param == "htcondor":
        return found, SITE, {**SETTINGS, "retries": 0}
    staging = {"mode": "transfer", "folder": str(found.folder / "spool")}
    pools = {"environment": {"type": "packed-venv"}, "staging": staging}
    return found, pools, {**SLURM, "retries": 0}


def test_a_token_travels_and_is_seen_by_nobody(
    node: tuple[Cluster, dict[str, Any], dict[str, Any]],
    first_run: FirstRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server gives nothing without it; afterwards no file, log or record holds it."""
    system, pools, settings = node
    folder = system.new_folder()
    with token_server() as (address, answers):
        asking(folder, address)
        # It has the modules of that one, and so the same environment.
        shutil.copytree(
            first_run.folder / "build" / layout.ARCHIVES, folder / "build" / layout.ARCHIVES
        )
        analyses.site(folder, {**pools, "credentials": ["token"]}, **settings)
        token = credentials.token(3600)
        mine = credentials.write(folder / "token", token)
        account = folder.stat()
        os.chown(mine, account.st_uid, account.st_gid)
        monkeypatch.setenv("BEARER_TOKEN_FILE", str(mine))
        monkeypatch.delenv("BEARER_TOKEN", raising=False)
        run = Run(system, folder)
        run.until(lambda: answers, seconds=200)
        assert not credentials.scan([], credentials.secret_parts(token))  # no command line has it
        assert "packing" not in run.ended(seconds=300)
        assert answers == [200]
    log = next((folder / "build/debug/distributed/logs").rglob("data/*.log"))
    assert "modes 0o600 0o700" in log.read_text()
    places = [folder, system.folder / "log", system.folder / "state", system.folder / "spool"]
    parts = credentials.secret_parts(token)
    assert not credentials.scan([path for path in places if path.is_dir()], parts, spared=[mine])


@pytest.mark.long
def test_the_doctor_asks_them(node: tuple[Cluster, dict[str, Any], dict[str, Any]]) -> None:
    """Its probes travel as jobs do, and nothing of them stays but what runs will be sent."""
    system, pools, settings = node
    folder = system.new_folder()
    prepare_moody(folder, 1, {}, {"default": {"resources": {"memory": "2GB"}}})
    analyses.site(folder, pools, **settings)
    before = sorted(folder.iterdir())
    doctor = (analyses.FASTHEP_SMK, "doctor", "workflow.yaml", "--profile", "site", "--json")
    done = system.run(*doctor, cwd=folder, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    checks = {check["what"]: check for check in json.loads(done.stdout)}
    assert checks["pool 'default'"]["state"] == "ok"
    assert [path for path in folder.iterdir() if path not in before] == [folder / "build"]
    (made,) = (folder / "build").rglob("*.run")
    pack = (analyses.FASTHEP_SMK, "pack", "workflow.yaml", "--environment", "packed-venv")
    assert system.run(*pack, cwd=folder, timeout=300).returncode == 0
    assert list((folder / "build").rglob("*.run")) == [made]


FAILS = """

def run(*, stream, **_):
    raise ValueError("no such muon")
"""
WORKS = """

def run(*, stream, **_):
    return stream
"""


@pytest.mark.long
def test_a_parcel_damaged_on_its_way_is_sent_again(htcondor: Cluster) -> None:
    """That is no failure of the job: it is still its first attempt."""
    folder = htcondor.new_folder()
    prepare_moody(folder, 1, {}, {"default": {"resources": {"memory": "2GB"}}})
    op = folder / "own_ops.py"
    op.write_text(op.read_text().replace("def run(", "def run_(") + WORKS)
    analyses.site(folder, SITE, **{**SETTINGS, "retries": 0})
    run = Run(htcondor, folder)
    spool = folder / "build/smk/transfer"
    end = time.monotonic() + 200
    while not (sent := [path for path in spool.rglob("*.parcel.tar") if path.name[0] != "."]):
        assert time.monotonic() < end, run.said
        time.sleep(0.01)
    with sent[0].open("r+b") as stream:
        stream.seek(len(stream.read().rstrip(b"\0")) - 50)  # what follows is padding
        stream.write(b"damaged")
    said = run.ended(seconds=300)
    assert "sent again: " in (folder / "build/debug/distributed/snakemake.log").read_text()
    assert "failed" not in said
    record = next(one for one in analyses.records(folder / "build") if one["rule"] != "finish")
    assert (record["attempt"], record["earlier"]) == (1, [])
