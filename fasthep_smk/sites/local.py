"""This machine: pools share its cpus, memory and GPUs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.config.requests import ResourceRequest
from fasthep_smk.sites import Draft, System
from fasthep_smk.util import units

if TYPE_CHECKING:
    from fasthep_smk.config.site import Site


class Local(System):
    """This machine, where Snakemake itself starts the jobs, and holds back what does not fit."""

    SNAKEMAKE = "fasthep_smk.executors.local"
    #: Jobs are deterministic: on one machine, a failure comes back.
    RETRIES = 0

    def machine(self, site: Site) -> ResourceRequest:
        """Return what this machine has; ``machine`` in the site's pools.yaml has the last word."""
        return _machine(site.machine)

    def settings(self, site: Site) -> Mapping[str, object]:
        """Return Snakemake's options: all cores, and no more memory and GPUs than there are."""
        here = self.machine(site)
        limits = {"gpu": here.gpus}
        if here.memory is not None:
            limits["mem_mb"] = here.memory // 1000**2
        if here.disk is not None:
            limits["disk_mb"] = here.disk // 1000**2
        return {"cores": here.cpus if site.machine.get("cpus") else "all", "resources": limits}

    def draft(self) -> Draft | None:
        here = _machine({})
        facts: dict[str, int | str] = {"cpus": here.cpus, "gpus": here.gpus}
        if here.memory is not None:
            facts["memory"] = units.format_bytes(here.memory).replace(" ", "")
        return Draft({"machine": facts, "waiting": "00:01:00"}, ["Pools share the machine."])


def _machine(said: Mapping[str, object]) -> ResourceRequest:
    """Return what this machine has, but for what is said of it."""
    return ResourceRequest(
        cpus=units.parse_count(said["cpus"]) if said.get("cpus") else _cpus(),
        memory=units.parse_bytes(said["memory"]) if said.get("memory") else _memory(),
        disk=units.parse_bytes(said["disk"]) if said.get("disk") else None,
        gpus=units.parse_count(said["gpus"], least=0)
        if said.get("gpus") is not None
        else len(list(Path("/dev").glob("nvidia[0-9]*"))),
    )


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory() -> int | None:
    """Return the machine's memory, or what a container lets us have of it."""
    limits: list[int] = []
    # Where it is not known, nothing is refused for want of it.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    limits += memory_limits()
    # In whole megabytes, as Snakemake counts.
    return min(limits) // 1000**2 * 1000**2 if limits else None


def memory_limits(
    own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> list[int]:
    """Return what control groups let this process have of memory: a container's, or a session's.

    Those of version 1 have a folder for memory alone. A group has no more than those around it.
    """
    files = {root / "memory.max", root / "memory" / "memory.limit_in_bytes"}
    with contextlib.suppress(OSError, ValueError):
        for line in own.read_text(encoding="utf-8").splitlines():
            _, kinds, group = line.split(":", 2)
            top, name = root, "memory.max"
            if kinds:
                top, name = root / "memory", "memory.limit_in_bytes"
            if not kinds or "memory" in kinds.split(","):
                place = Path(group.strip("/"))
                files |= {top / folder / name for folder in (place, *place.parents)}
    limits: list[int] = []
    for file in files:
        with contextlib.suppress(OSError, ValueError):  # "max": no limit
            limits.append(int(file.read_text(encoding="ascii")))
    return limits
