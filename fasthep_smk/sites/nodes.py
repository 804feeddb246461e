"""What the nodes of a batch system have, those that are alike together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from fasthep_smk.config.requests import Attempt
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.units import about_bytes, format_bytes, whole_mb

#: Cpus, memory in bytes, and GPUs: of a node, or what a job asks of one.
Shape: TypeAlias = tuple[int, int, int]
AMOUNTS = ("cpus", "memory", "gpus")


@dataclass(frozen=True)
class ClusterNode:
    """A node of Slurm, or a slot of HTCondor: numbers and bytes; ``disk``: ``None`` if unknown.

    ``models`` are the names of its GPUs, ``partitions`` those that it is in.
    """

    cpus: int
    memory: int
    gpus: int = 0
    disk: int | None = None
    models: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()

    @property
    def shape(self) -> Shape:
        return self.cpus, self.memory, self.gpus

    def __str__(self) -> str:
        parts = [f"{self.cpus} cpu{'' if self.cpus == 1 else 's'}", format_bytes(self.memory)]
        if self.disk:
            parts.append(f"{about_bytes(self.disk)} disk")
        if self.gpus:
            models = f" ({', '.join(self.models)})" if self.models else ""
            parts.append(f"{self.gpus} GPU{'' if self.gpus == 1 else 's'}{models}")
        if self.partitions:
            parts.append(f"partition {','.join(self.partitions)}")
        return ", ".join(parts)


def in_words(nodes: Iterable[ClusterNode], what: str) -> list[str]:
    """Return a line for each kind of nodes, with how many there are: the most frequent first.

    ``what`` is what they are called: ``node``, ``slot``.
    """
    return [
        f"    {count} {what}{'' if count == 1 else 's'}: {node}"
        for node, count in Counter(nodes).most_common()
    ]


def fits(wanted: Shape, shapes: Iterable[Shape]) -> bool:
    """Whether any node has all that a job asks for."""
    return any(all(w <= h for w, h in zip(wanted, shape, strict=True)) for shape in shapes)


def larger_than_any(
    attempt: Attempt, wanted: Shape, shapes: Iterable[Shape], *, amount: str, what: str, hint: str
) -> Finding:
    """Return that no node, called ``what``, has all that an attempt asks for."""
    return Finding(
        key=attempt.place(f"resources.{amount}"),
        problem=f"pool {attempt.pool!r} asks for more than {what} has",
        value=f"cpus {wanted[0]}, memory {attempt.request.shown('memory')}, gpus {wanted[2]}",
        expected="; ".join(
            f"cpus {cpus}, memory {format_bytes(memory)}, gpus {gpus}"
            for cpus, memory, gpus in sorted(set(shapes), reverse=True)[:4]
        ),
        hint=hint,
    )


def one_cpu(shape: Shape, gpus: int = 0) -> dict[str, int | str]:
    """Return the resources of a first pool: one cpu of a node with its share of the memory."""
    cpus, memory, _ = shape
    share: dict[str, int | str] = {"cpus": 1}
    share["memory"] = f"{whole_mb(memory // max(cpus, 1))}MB"
    return share | ({"gpus": gpus} if gpus else {})
