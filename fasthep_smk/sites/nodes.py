"""What the nodes of a batch system have, those that are alike together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from fasthep_smk.util.units import about_bytes, format_bytes


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
        f"{count} {what}{'' if count == 1 else 's'}: {node}"
        for node, count in Counter(nodes).most_common()
    ]
