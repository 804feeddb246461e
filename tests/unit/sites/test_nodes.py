"""Kinds of nodes, as batch systems print them, and pools that none of them can run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.cli.site_init import init_site
from fasthep_smk.config.requests import Attempt, ResourceRequest
from fasthep_smk.config.site import Site
from fasthep_smk.sites import htcondor, slurm_partitions
from fasthep_smk.sites.htcondor import HTCondor
from fasthep_smk.sites.nodes import ClusterNode, in_words
from fasthep_smk.sites.slurm import Slurm

GB = 10**9
#: What Slurm 22.05 prints of a cluster, for each way in which it is asked: nodes, partitions, the
#: default one. A node in two partitions has two lines.
NODES = """\
big1|highmem|8|128000|0|(null)
gpu1|gpu|4|16000|900000|gpu:a100:4(S:0-1)
std1|standard|4|16000|0|(null)
std1|short|4|16000|0|(null)
std2|standard|4|16000|0|(null)
std2|spot|4|16000|0|(null)
"""
SINFO = """\
standard|infinite|4|16000|(null)|idle|standard*
highmem|infinite|8|128000|(null)|idle|highmem
gpu|infinite|4|16000|gpu:a100:4(S:0-1)|idle|gpu
short|2:00|4|16000|(null)|idle|short
spot|infinite|4|16000|(null)|idle|spot
debug|30:00|4|16000|(null)|idle|debug
mixed|infinite|64|16000|(null)|idle|mixed
mixed|infinite|4|512000|(null)|idle|mixed
"""
PARTITION = (
    "PartitionName={} AllowGroups=ALL AllowAccounts={} AllowQos=ALL AllocNodes=ALL Default=NO "
    "Hidden=NO MaxTime=UNLIMITED PriorityTier={} RootOnly=NO ReqResv=NO PreemptMode={} State=UP\n"
)
SCONTROL = "".join(
    PARTITION.format(*one)
    for one in (
        ("standard", "ALL", 10, "OFF"),
        ("short", "ALL", 10, "OFF"),
        ("highmem", "cms", 10, "OFF"),
        ("spot", "ALL", 1, "REQUEUE"),
        ("debug", "ALL", 10, "OFF"),
    )
)
#: What HTCondor 23.9 prints of three slots of one machine.
STATUS: list[dict[str, Any]] = [
    {"TotalSlotCpus": 8, "TotalSlotDisk": 30000000.0,
     "TotalSlotGPUs": 0, "TotalSlotMemory": 16000},
    {"TotalSlotCpus": 8, "TotalSlotDisk": 30000000.0,
     "TotalSlotGPUs": 0, "TotalSlotMemory": 16000},
    {"TotalSlotCpus": 4, "TotalSlotDisk": 30000000.0,
     "TotalSlotGPUs": 1, "TotalSlotMemory": 128000, "GPUs_DeviceName": "NVIDIA A100"},
]  # fmt: skip


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the commands of a cluster, and nothing else on ``PATH``."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in {"nodes": NODES, "sinfo": SINFO, "scontrol": SCONTROL}.items():
        (folder / f"{name}.txt").write_text(text)
    (folder / "status.json").write_text(json.dumps(STATUS))
    for name, script in {
        "sinfo": f'case "$*" in *--Node*) f=nodes ;; *) f=sinfo ;; '
        f"esac; exec /bin/cat {folder}/$f.txt",
        "scontrol": f'case "$*" in *partition*) exec /bin/cat {folder}/scontrol.txt ;; esac',
        "condor_status": f"exec /bin/cat {folder}/status.json",
    }.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.mark.usefixtures("commands")
def test_nodes_of_slurm_that_are_alike_are_one_line() -> None:
    assert in_words(slurm_partitions.nodes(), "node") == [
        "    1 node: 8 cpus, 125 GiB, partition highmem",
        "    1 node: 4 cpus, 16000 MiB, 944 GB disk, 4 GPUs (a100), partition gpu",
        "    1 node: 4 cpus, 16000 MiB, partition short,standard",
        "    1 node: 4 cpus, 16000 MiB, partition spot,standard",
    ]


@pytest.mark.usefixtures("commands")
def test_slots_of_htcondor_that_are_alike_are_one_line() -> None:
    assert in_words(htcondor.nodes(), "slot") == [
        "    2 slots: 8 cpus, 16000 MiB, 31 GB disk",
        "    1 slot: 4 cpus, 125 GiB, 31 GB disk, 1 GPU (NVIDIA A100)",
    ]


def test_the_first_profile_lists_them_and_what_there_is_to_choose_from(
    commands: Path, tmp_path: Path
) -> None:
    """Neither a partition of some accounts, nor one for trials, nor one whose jobs give way."""
    init_site("slurm", tmp_path / "site")
    text = (tmp_path / "site" / "pools.yaml").read_text()
    assert "#     1 node: 8 cpus, 125 GiB, partition highmem\n" in text
    assert "#     short: 00:02:00\n" in text
    assert yaml.safe_load(text)["default"]["config"]["slurm"]["partitions"] == {
        "standard": {"walltime": "unlimited", "cpus": 4, "memory": "16000MiB", "gpus": 0},
        "short": {"walltime": "00:02:00", "cpus": 4, "memory": "16000MiB", "gpus": 0},
    }
    (commands / "scontrol.txt").write_text("")  # nobody knows who may use which
    init_site("slurm", tmp_path / "other")
    found = yaml.safe_load((tmp_path / "other" / "pools.yaml").read_text())
    assert "slurm" not in found["default"]["config"]
    assert found["pool_profiles"]["default"]["config"]["slurm"] == {"partition": "standard"}


@pytest.mark.usefixtures("commands")
@pytest.mark.parametrize(
    ("cpus", "memory", "refused"), [(64, 10, False), (4, 500, False), (8, 100, True)]
)
def test_one_node_must_have_all_that_a_job_asks_for(cpus: int, memory: int, refused: bool) -> None:
    """Each amount alone is somewhere in the partition."""
    asked = ResourceRequest(cpus=cpus, memory=memory * GB)
    attempt = Attempt("large", asked, {"slurm": {"partition": "mixed"}})
    found = [str(one) for one in Slurm().problems([attempt], Site("slurm"))]
    assert len(found) == refused
    if refused:
        assert "'large' asks for more than any one node of partition mixed has" in found[0]
        assert "cpus 8, memory 100 GB, gpus 0" in found[0]
        assert "cpus 64, memory 16000 MiB, gpus 0; cpus 4, memory 500 GiB, gpus 0" in found[0]


@pytest.mark.parametrize(
    ("asked", "options", "most"),
    [
        (ResourceRequest(cpus=8), {}, 16 * GB),
        (ResourceRequest(gpus=1), {}, 128 * GB),
        (ResourceRequest(cpus=64), {}, None),
        (ResourceRequest(), {"flavours": {"short": {"walltime": "1h", "memory": "4GB"}}}, 4 * GB),
        (ResourceRequest(), {"flavours": "cern"}, 128 * GB),
    ],
)
def test_the_largest_slot_is_one_with_the_cpus_and_gpus_of_the_job(
    asked: ResourceRequest,
    options: dict[str, Any],
    most: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slots = [ClusterNode(8, 16 * GB), ClusterNode(4, 128 * GB, 1)]
    monkeypatch.setattr(htcondor, "nodes", lambda: slots)
    assert HTCondor().most_memory(Attempt("default", asked, {"htcondor": options})) == most


def test_what_is_larger_than_any_slot_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(htcondor, "nodes", lambda: [ClusterNode(8, 16 * GB)])
    origins = {"resources.cpus": "w.yaml: cpus", "resources.memory": "w.yaml: memory"}
    for request, key in (
        (ResourceRequest(cpus=16, memory=GB), "w.yaml: cpus"),
        (ResourceRequest(cpus=4, memory=32 * GB), "w.yaml: memory"),
    ):
        (found,) = HTCondor().problems([Attempt("default", request, {}, origins)], Site("htcondor"))
        assert found.key == key


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"job_flavour": "tommorow", "flavours": "cern"}, "did you mean 'tomorrow'?"),
        ({"job_flavour": "workday", "flavours": "cern"}, None),
        ({"job_flavour": "tommorow"}, None),  # of whose site nothing is known
        ({"job_flavour": "own", "flavours": {"short": "20m"}}, None),
    ],
)
def test_a_flavour_that_cern_does_not_have_is_refused(
    options: dict[str, Any], hint: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(htcondor, "nodes", list)
    attempt = Attempt("default", ResourceRequest(), {"htcondor": options})
    found = list(HTCondor().problems([attempt], Site("htcondor")))
    assert [one.hint for one in found] == ([hint] if hint else [])
