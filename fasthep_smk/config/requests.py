"""What a job asks for, and on which pool, at each of its attempts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.units import (
    format_bytes,
    format_duration,
    parse_bytes,
    parse_count,
    parse_duration,
)

#: The systems that we know; a profile may name any other executor of Snakemake's.
SYSTEMS = ("local", "slurm", "htcondor")
#: What a job may ask for, and how each amount is read.
AMOUNTS: Mapping[str, Callable[[object], int]] = {
    "cpus": parse_count,
    "memory": parse_bytes,
    "disk": parse_bytes,
    "gpus": partial(parse_count, least=0),
    "walltime": parse_duration,
}
#: Among the origins of an attempt's settings: who says up to how much its memory may grow.
GROWS_TO = "grows to"


def leaf_of(name: str) -> str:
    """Return the setting of a pool that says an amount: ``resources.memory``."""
    return "config.walltime" if name == "walltime" else f"resources.{name}"


@dataclass(frozen=True)
class ResourceRequest:
    """Cpus and GPUs (numbers), memory and disk (bytes), time (seconds); ``None``: not said."""

    cpus: int = 1
    memory: int | None = None
    disk: int | None = None
    gpus: int = 0
    walltime: int | None = None

    def shown(self, name: str) -> str:
        """Return one amount for people; ``-`` if nothing is said."""
        value = getattr(self, name)
        if value is None:
            return "-"
        if name in ("memory", "disk"):
            return format_bytes(value)
        return format_duration(value) if name == "walltime" else str(value)


@dataclass(frozen=True)
class Pilot:
    """Batch jobs that stay and run one job of a pool after the other.

    Each has room for ``tasks`` jobs at a time and lasts ``walltime`` seconds, or as the site says.
    """

    tasks: int = 1
    walltime: int | None = None


@dataclass(frozen=True)
class Attempt:
    """One try of a job: its pool, what it asks, and the options of each batch system.

    With a ``pilot``, it is run by one. ``measured`` are the amounts that follow from what other
    jobs took. A job that has lacked memory is tried again with ``growth`` times as much. ``most``
    is the upper limit of ``memory`` and ``walltime``; one that is missing has no limit.
    """

    pool: str
    request: ResourceRequest
    options: Mapping[str, YamlMapping] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    pilot: Pilot | None = None
    measured: tuple[str, ...] = ()
    most: Mapping[str, int] = field(default_factory=dict)
    growth: float = 2.0

    @property
    def may_change(self) -> bool:
        """Whether a later attempt, or other jobs, may let a job ask for another amount."""
        amounts = {"memory": self.request.memory, "walltime": self.request.walltime}
        return bool(self.measured) or any(
            amount is not None and amount != self.most.get(name) for name, amount in amounts.items()
        )

    def place(self, leaf: str) -> str:
        """Return where a setting (``resources.memory``) is written down, for a message."""
        return self.origins.get(leaf) or f"pool {self.pool!r}"


@dataclass(frozen=True)
class Route:
    """The attempts of a rule's jobs, first to last, and why they go there.

    ``fixed``: how often a job is tried is said by the workflow, not left to the site.
    ``fallback_after``: how many seconds a job waits in the queue of another pool before it goes to
    that of its last attempt.
    """

    attempts: tuple[Attempt, ...]
    why: str = ""
    fixed: bool = False
    origins: Mapping[str, str] = field(default_factory=dict)
    fallback_after: int | None = None

    @property
    def pools(self) -> tuple[str, ...]:
        """The pools in the order in which they are tried, each once."""
        return tuple(dict.fromkeys(attempt.pool for attempt in self.attempts))

    @property
    def retries(self) -> int:
        return len(self.attempts) - 1
