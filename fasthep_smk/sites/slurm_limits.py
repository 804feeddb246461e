"""What jobs ask for, against what the nodes of Slurm's partitions have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from fasthep_smk.config import queues
from fasthep_smk.config.requests import Attempt
from fasthep_smk.sites.slurm_partitions import Partition
from fasthep_smk.util import units
from fasthep_smk.util.errors import Finding

__all__ = ["fits", "too_large"]

#: Cpus, memory in bytes, and GPUs of a node.
Shape: TypeAlias = tuple[int, int, int]
_AMOUNTS = ("cpus", "memory", "gpus")
_PENDING = "such a job would be pending forever: another partition, or a smaller pool"


def fits(attempt: Attempt, shapes: Iterable[Shape]) -> bool:
    """Whether any node of some shapes has all that an attempt asks for."""
    wanted = _wanted(attempt)
    return any(all(w <= h for w, h in zip(wanted, shape, strict=True)) for shape in shapes)


def too_large(attempt: Attempt, here: Sequence[Partition], where: str) -> Iterable[Finding]:
    """Yield what an attempt asks for and no node of some partitions has, called ``where``.

    Nodes that are down or drained count: they come back.
    """
    if not here:
        return
    shapes = list(dict.fromkeys(shape for one in here for shape in one.shapes))
    alone = False
    for place, (name, asked) in enumerate(zip(_AMOUNTS, _wanted(attempt), strict=True)):
        if asked > (most := max(shape[place] for shape in shapes)):
            yield queues.larger_than(attempt, name, most, where, _PENDING)
            alone = True
    limits = [one.walltime for one in here if one.walltime is not None]
    walltime = attempt.request.walltime
    if walltime and len(limits) == len(here) and walltime > max(limits):
        yield queues.larger_than(attempt, "walltime", max(limits), where, _PENDING)
        alone = True
    if not alone and not fits(attempt, shapes):
        yield _too_large_together(attempt, shapes, where)


def _wanted(attempt: Attempt) -> Shape:
    """Return what an attempt asks for; the GPUs of a ``gres`` may be of a kind of their own."""
    request, by_gres = attempt.request, attempt.options.get("slurm", {}).get("gres")
    return request.cpus, request.memory or 0, 0 if by_gres else request.gpus or 0


def _too_large_together(attempt: Attempt, shapes: Sequence[Shape], where: str) -> Finding:
    """Return that each amount is what some node has, and all of them what none has."""
    request = attempt.request
    return Finding(
        key=attempt.place("resources.memory"),
        problem=f"pool {attempt.pool!r} asks for more than any one node of {where} has",
        value=f"cpus {request.cpus}, memory {request.shown('memory')}, gpus {_wanted(attempt)[2]}",
        expected="; ".join(
            f"cpus {cpus}, memory {units.format_bytes(memory)}, gpus {count}"
            for cpus, memory, count in sorted(shapes, reverse=True)[:4]
        ),
        hint=_PENDING,
    )
