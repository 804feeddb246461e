"""What jobs ask for, against what the nodes of Slurm's partitions have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fasthep_smk.config import queues
from fasthep_smk.config.requests import Attempt
from fasthep_smk.sites.slurm_partitions import Partition
from fasthep_smk.util import units
from fasthep_smk.util.errors import Finding

__all__ = ["too_large"]

_PENDING = "such a job would be pending forever: another partition, or a smaller pool"


def too_large(attempt: Attempt, here: Sequence[Partition], where: str) -> Iterable[Finding]:
    """Yield what an attempt asks for and no node of some partitions has, called ``where``.

    Nodes that are down or drained count only where no other is up: one of them will be.
    """
    if not here:
        return
    by_gres = bool(attempt.options.get("slurm", {}).get("gres"))  # the GPUs are among those
    there = {shape: None for one in here for shape in one.shapes}
    up = {shape: None for one in here for shape in one.up} or there
    alone = False
    for place, name in enumerate(("cpus", "memory", "gpus")):
        asked = getattr(attempt.request, name) or 0
        most = max(shape[place] for shape in up)
        if asked <= most or (name == "gpus" and by_gres):
            continue
        down = asked <= max(shape[place] for shape in there)
        but = " (larger nodes are down or drained)" if down else ""
        yield queues.larger_than(attempt, name, most, where, _PENDING, where=but)
        alone = True
    limits = [one.walltime for one in here if one.walltime is not None]
    walltime = attempt.request.walltime
    if walltime and len(limits) == len(here) and walltime > max(limits):
        yield queues.larger_than(attempt, "walltime", max(limits), where, _PENDING)
        alone = True
    if not alone:
        yield from _too_large_together(attempt, list(up), where, gpus=not by_gres)


def _too_large_together(
    attempt: Attempt, shapes: Sequence[tuple[int, int, int]], where: str, *, gpus: bool
) -> Iterable[Finding]:
    """Yield an attempt each amount of which some node has, and all of which none has."""
    request = attempt.request
    wanted = (request.cpus, request.memory or 0, request.gpus if gpus else 0)
    if any(all(w <= h for w, h in zip(wanted, shape, strict=True)) for shape in shapes):
        return
    yield Finding(
        key=attempt.place("resources.memory"),
        problem=f"pool {attempt.pool!r} asks for more than any one node of {where} has",
        value=f"cpus {request.cpus}, memory {request.shown('memory')}, gpus {wanted[2]}",
        expected="; ".join(
            f"cpus {cpus}, memory {units.format_bytes(memory)}, gpus {count}"
            for cpus, memory, count in sorted(shapes, reverse=True)[:4]
        ),
        hint=_PENDING,
    )
