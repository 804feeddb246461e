"""Slurm's partitions and nodes: what each has, and a first description of a site from that."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fasthep_smk.config import queues
from fasthep_smk.sites import Draft
from fasthep_smk.sites.commands import ask, number
from fasthep_smk.sites.nodes import ClusterNode, Shape, in_words, one_cpu
from fasthep_smk.util import units

#: The file of a site profile that tells the plugin which partition a job fits on.
PARTITIONS = "partitions.yaml"
#: Nodes in these states take no job before somebody has seen to them: sinfo(1), "NODE STATE CODES".
_OUT = frozenset({"down", "drained", "draining", "fail", "failing", "inval"})
#: What sinfo puts after a state: not responding, powered off, in a reservation and so on.
_FLAGS = "*~#!%$@^+-"


@dataclass
class SlurmPartition:
    """What Slurm says of a partition; its time limit is in seconds.

    ``shapes`` are cpus, memory and GPUs of its nodes, each with whether any such node is neither
    down nor drained; ``models`` are those of its GPUs, where they have names. Jobs that name no
    partition go to the one that ``is_default``.
    """

    name: str
    walltime: int | None
    is_default: bool = False
    shapes: dict[Shape, bool] = field(default_factory=dict)
    models: dict[str, None] = field(default_factory=dict)

    @property
    def most(self) -> Shape:
        """The largest amounts that any of its nodes has."""
        cpus, memories, gpus = zip(*self.shapes, strict=True)
        return max(cpus), max(memories), max(gpus)

    @property
    def up(self) -> list[Shape]:
        """The nodes that take jobs now; all of them if there is none."""
        return [shape for shape, is_up in self.shapes.items() if is_up] or list(self.shapes)


def configuration() -> dict[str, str]:
    """Return Slurm's settings by their names; none where it does not answer.

    Source: scontrol(1), "show config".
    """
    text = ask(["scontrol", "show", "config"]) or ""
    return dict(re.findall(r"^(\w+)\s*=\s*(.*?)\s*$", text, re.MULTILINE))


def partitions() -> dict[str, SlurmPartition] | None:
    """Return the partitions that Slurm has; ``None`` where it does not answer."""
    # Without --exact, nodes that differ are one line, with the least that any of them has.
    text = ask(["sinfo", "--noheader", "--all", "--exact", "--format=%R|%l|%c|%m|%G|%T|%P"])
    if text is None:
        return None
    by_name: dict[str, SlurmPartition] = {}
    for line in text.splitlines():
        if line.count("|") != 6:
            continue  # a word of sinfo's to people
        name, limit, cpus, memory, gres, state, marked = line.split("|")
        new = SlurmPartition(name, _seconds(limit), marked.endswith("*"))
        partition = by_name.setdefault(name, new)
        shape = (number(cpus), number(memory) * 1024**2, _gpus(gres))
        is_up = state.strip().lower().rstrip(_FLAGS) not in _OUT
        partition.shapes[shape] = partition.shapes.get(shape, False) or is_up
        partition.models |= dict.fromkeys(_models(gres))
    return by_name or None


def default_of(known: Mapping[str, SlurmPartition]) -> str:
    """Return the name of the partition of jobs that name none; nothing if there is none."""
    return next((name for name, partition in known.items() if partition.is_default), "")


def nodes() -> list[ClusterNode]:
    """Return the nodes that Slurm has; none where it does not answer.

    Source: sinfo(1).
    """
    text = ask(["sinfo", "--noheader", "--all", "--Node", "--format=%N|%R|%c|%m|%d|%G"]) or ""
    by_name: dict[str, ClusterNode] = {}
    places: defaultdict[str, set[str]] = defaultdict(set)
    for line in text.splitlines():
        if line.count("|") != 5:
            continue  # a word of sinfo's to people
        name, partition, cpus, memory, disk, gres = line.split("|")
        places[name].add(partition)
        by_name[name] = ClusterNode(
            cpus=number(cpus),
            memory=number(memory) * 1024**2,
            gpus=_gpus(gres),
            disk=number(disk) * 1024**2 or None,
            models=_models(gres),
        )
    # Sinfo has no order for a node's partitions.
    return [replace(by_name[name], partitions=tuple(sorted(places[name]))) for name in by_name]


def first_pools() -> Draft | None:
    """Return a pool for the default partition, one for the most memory and one for GPUs."""
    by_name = {
        name: partition
        for name, partition in (partitions() or {}).items()
        if partition.most[0] and partition.most[1]
    }
    if not by_name:
        return None
    every = list(by_name.values())
    first = by_name.get(default_of(by_name))
    plain = first or min(every, key=_modesty)
    profiles: dict[str, object] = {"default": _profile(plain)}
    largest = max(every, key=lambda partition: partition.most[1])
    if largest.most[1] > plain.most[1]:
        profiles["high_memory"] = _profile(largest)
    most_gpus = max(every, key=lambda partition: partition.most[2])
    if most_gpus.most[2]:
        profiles["gpu"] = _profile(most_gpus, gpus=1)
    remarks = ["The number of nodes of each kind, and how long a job may last:"]
    remarks += in_words(nodes(), "node")
    remarks += [
        f"    {partition.name}: "
        f"{units.format_duration(partition.walltime) if partition.walltime else 'no time limit'}"
        for partition in every
    ]
    config: dict[str, object] = {"walltime": "01:00:00"}
    choices = [by_name[name] for name in _for_all() if name in by_name]
    if len(choices) > 1 and plain in choices:
        # The time that a job asks for decides; of those that are alike, the smallest one is first.
        choices.sort(key=lambda partition: (_modesty(partition), partition is not plain))
        config["slurm"] = {
            "partitions": {partition.name: _gives(partition) for partition in choices}
        }
        profiles["default"] = _profile(plain, named=False)
    pools: dict[str, object] = {"default": {"config": config}, "pool_profiles": profiles}
    limits = [partition.walltime for partition in every if partition.walltime]
    if len(limits) == len(every):
        pools["limits"] = {"walltime": units.format_duration(max(limits))}
    invented = ["default.config.walltime, 01:00:00: Slurm ends a job that takes longer"]
    sizes = {"partitions": {partition.name: _limits(partition) for partition in every}}
    return Draft({**pools, "waiting": "00:02:00"}, remarks, {PARTITIONS: sizes}, invented)


def _modesty(partition: SlurmPartition) -> tuple[int, int]:
    """Return what to sort partitions by, so that the one is first that fewest jobs need."""
    _, memory, gpus = partition.most
    return gpus, memory


#: Partitions for people who try something: sites do not want many jobs there.
_FOR_TRIALS = re.compile("debug|devel|interactive|test", re.IGNORECASE)


def _for_all() -> list[str]:
    """Return the partitions for anybody's jobs, in which none gives way to others.

    Source: scontrol(1), "show partition".
    """
    text = ask(["scontrol", "show", "partition", "--oneliner"]) or ""
    each = [dict(item.partition("=")[::2] for item in line.split()) for line in text.splitlines()]
    open_to = ("AllowGroups", "AllowAccounts", "AllowQos", "AllocNodes")
    usable = [
        entry
        for entry in each
        if entry.get("PartitionName")
        and not _FOR_TRIALS.search(entry["PartitionName"])
        and entry.get("State") == "UP"
        and {entry.get(name, "ALL") for name in open_to} == {"ALL"}
        and not {entry.get(name, "NO") for name in ("Hidden", "RootOnly", "ReqResv")} - {"NO"}
    ]
    first = max((number(entry.get("PriorityTier", "")) for entry in usable), default=0)
    return [
        entry["PartitionName"]
        for entry in usable
        if entry.get("PreemptMode", "OFF") == "OFF"
        or number(entry.get("PriorityTier", "")) == first
    ]


def _gives(partition: SlurmPartition) -> dict[str, int | str]:
    """Return what a job gets at most in a partition, as a site says it."""
    time = units.format_duration(partition.walltime) if partition.walltime else queues.UNLIMITED
    cpus, memory, gpus = partition.most
    return {"walltime": time, "cpus": cpus, "memory": f"{memory // 1024**2}MiB", "gpus": gpus}


def _limits(partition: SlurmPartition) -> dict[str, int]:
    """Return a partition's limits in the plugin's words: where jobs go that name no partition."""
    cpus, memory, gpus = partition.most
    limits = {"max_threads": cpus, "max_mem_mb": memory // 1024**2, "max_gpu": gpus}
    if partition.walltime is not None:
        limits["max_runtime"] = partition.walltime // 60
    return limits


def _profile(partition: SlurmPartition, gpus: int = 0, *, named: bool = True) -> dict[str, object]:
    """Return a pool profile: one cpu of a partition's node with its share of the memory."""
    config: dict[str, object] = {"slurm": {"partition": partition.name}} if named else {}
    if partition.walltime is not None and partition.walltime < 3600:
        config["walltime"] = units.format_duration(partition.walltime)
    return {"resources": one_cpu(partition.most, gpus)} | ({"config": config} if config else {})


def _seconds(text: str) -> int | None:
    """Return a time limit as sinfo prints it: ``1-00:00:00``, ``30:00``, ``infinite``."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (number(part or "") for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _gpus(text: str) -> int:
    """Return the GPUs among a node's gres: ``gpu:a100:4(S:0-1),shard:8``."""
    counts = re.findall(r"(?:^|,)gpu(?::[^:,(]+)?:(\d+)", text)
    return sum(number(count) for count in counts)


def _models(text: str) -> tuple[str, ...]:
    """Return the names of GPUs among a node's gres."""
    # A number is a name where another one follows, as in gpu:3090:2.
    named = re.findall(r"(?:^|,)gpu:([^:,(]+(?=:)|[^:,(]*[^:,(0-9][^:,(]*)", text)
    return tuple(dict.fromkeys(named))
