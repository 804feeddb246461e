"""Slurm's partitions and nodes: what each has, and a first description of a site from that."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fasthep_smk.config import queues
from fasthep_smk.sites import Draft
from fasthep_smk.sites.commands import ask, number
from fasthep_smk.sites.nodes import ClusterNode, in_words
from fasthep_smk.util import units

#: The file of a site profile that tells the plugin which partition a job fits on.
PARTITIONS = "partitions.yaml"
#: Nodes in these states take no job before somebody has seen to them: sinfo(1), "NODE STATE CODES".
_OUT = frozenset({"down", "drained", "draining", "fail", "failing", "inval"})
#: What sinfo puts after a state: not responding, powered off, in a reservation and so on.
_FLAGS = "*~#!%$@^+-"


@dataclass(frozen=True)
class SlurmPartition:
    """What Slurm says of a partition: its largest amounts, memory in bytes, the limit in seconds.

    ``shapes`` are cpus, memory and GPUs of its nodes, each once; ``up`` are those of nodes that are
    neither down nor drained; ``models`` are those of its GPUs, where they have names. Jobs that
    name no partition go to the one that ``is_default``.
    """

    name: str
    walltime: int | None
    cpus: int
    memory: int
    gpus: int
    shapes: tuple[tuple[int, int, int], ...] = ()
    up: tuple[tuple[int, int, int], ...] = ()
    is_default: bool = False
    models: tuple[str, ...] = ()


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
    times: dict[str, int | None] = {}
    default = ""
    # Of each shape of a partition's nodes, whether one of them is up.
    shapes: defaultdict[str, dict[tuple[int, int, int], bool]] = defaultdict(dict)
    models: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for line in text.splitlines():
        if line.count("|") != 6:
            continue  # a word of sinfo's to people
        name, limit, cpus, memory, gres, state, marked = line.split("|")
        times[name] = _seconds(limit)
        default = default or (name if marked.endswith("*") else "")
        shape = (number(cpus), number(memory) * 1024**2, _gpus(gres))
        models[name] |= dict.fromkeys(_models(gres))
        is_up = state.strip().lower().rstrip(_FLAGS) not in _OUT
        shapes[name][shape] = shapes[name].get(shape, False) or is_up
    by_name = {}
    for name, time in times.items():
        most, memories, counts = map(max, zip(*shapes[name], strict=True))
        up = tuple(shape for shape, is_up in shapes[name].items() if is_up)
        each = tuple(shapes[name])
        by_name[name] = SlurmPartition(
            name, time, most, memories, counts, each, up, name == default, tuple(models[name])
        )
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


def draft() -> Draft | None:
    """Return a pool for the default partition, one for the most memory and one for GPUs."""
    by_name = {
        name: partition
        for name, partition in (partitions() or {}).items()
        if partition.cpus and partition.memory
    }
    if not by_name:
        return None
    first = by_name.get(default_of(by_name))
    plain = first or min(by_name.values(), key=lambda partition: (partition.gpus, partition.memory))
    profiles: dict[str, object] = {"default": _profile(plain)}
    largest = max(by_name.values(), key=lambda partition: partition.memory)
    if largest.memory > plain.memory:
        profiles["high_memory"] = _profile(largest)
    with_gpus = [partition for partition in by_name.values() if partition.gpus]
    if with_gpus:
        profiles["gpu"] = _profile(max(with_gpus, key=lambda partition: partition.gpus), gpus=1)
    remarks = ["The number of nodes of each kind, and how long a job may last:"]
    remarks += [f"    {line}" for line in in_words(nodes(), "node")]
    remarks += [
        f"    {partition.name}: "
        f"{units.format_duration(partition.walltime) if partition.walltime else 'no time limit'}"
        for partition in by_name.values()
    ]
    limits = [partition.walltime for partition in by_name.values()]
    config: dict[str, object] = {"walltime": "01:00:00"}
    choices = [by_name[name] for name in _for_all() if name in by_name]
    if len(choices) > 1 and plain in choices:
        # The time that a job asks for decides; of those that are alike, the smallest one is first.
        choices.sort(
            key=lambda partition: (partition.gpus, partition.memory, partition is not plain)
        )
        config["slurm"] = {
            "partitions": {partition.name: _gives(partition) for partition in choices}
        }
        profiles["default"] = _profile(plain, named=False)
    pools: dict[str, object] = {"default": {"config": config}, "pool_profiles": profiles}
    if all(limits):
        longest = max(limit for limit in limits if limit)
        pools["limits"] = {"walltime": units.format_duration(longest)}
    sizes = {"partitions": {partition.name: _limits(partition) for partition in by_name.values()}}
    invented = ["default.config.walltime, 01:00:00: Slurm ends a job that takes longer"]
    return Draft({**pools, "waiting": "00:02:00"}, remarks, {PARTITIONS: sizes}, invented)


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
    return {
        "walltime": time,
        "cpus": partition.cpus,
        "memory": f"{partition.memory // 1024**2}MiB",
        "gpus": partition.gpus,
    }


def _limits(partition: SlurmPartition) -> dict[str, int]:
    """Return a partition's limits in the plugin's words: where jobs go that name no partition."""
    limits: dict[str, int] = {
        "max_threads": partition.cpus,
        "max_mem_mb": partition.memory // 1024**2,
        "max_gpu": partition.gpus,
    }
    if partition.walltime is not None:
        limits["max_runtime"] = partition.walltime // 60
    return limits


def _profile(partition: SlurmPartition, gpus: int = 0, *, named: bool = True) -> dict[str, object]:
    """Return a pool profile: one cpu of a partition's node with its share of the memory."""
    share = units.whole_mb(partition.memory // max(partition.cpus, 1))
    resources: dict[str, int | str] = {"cpus": 1, "memory": f"{share}MB"}
    config: dict[str, object] = {"slurm": {"partition": partition.name}} if named else {}
    if partition.walltime is not None and partition.walltime < 3600:
        config["walltime"] = units.format_duration(partition.walltime)
    profile: dict[str, object] = {"resources": resources | ({"gpus": gpus} if gpus else {})}
    return profile | ({"config": config} if config else {})


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
