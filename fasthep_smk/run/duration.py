"""When a run may end at the latest, by the time limits of its jobs: a pure function."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["Duration", "Load", "longest"]


@dataclass(frozen=True)
class Load:
    """The jobs of a rule that are to run: how many, each for at most how many seconds.

    ``walltime`` is ``None`` if it is not given; ``slots`` is how many of them run at a time, if
    that is limited. ``after`` are the rules whose jobs they wait for.
    """

    jobs: int
    walltime: float | None = None
    slots: int | None = None
    after: frozenset[str] = field(default_factory=frozenset)

    @property
    def seconds(self) -> float:
        """How long all of them take, in as many waves as are needed."""
        if not self.jobs or self.walltime is None:
            return 0.0
        waves = math.ceil(self.jobs / self.slots) if self.slots else 1
        return waves * self.walltime


@dataclass(frozen=True)
class Duration:
    """How long a run may take, in seconds; ``unknown`` are rules of which nothing is known.

    With any of those it may take longer.
    """

    seconds: float
    unknown: tuple[str, ...] = ()

    @property
    def is_lower_bound(self) -> bool:
        return bool(self.unknown)


def longest(loads: Mapping[str, Load]) -> Duration:
    """Return how long the longest path through the graph of rules takes.

    Rules that do not wait for each other are taken to run at the same time. Time that jobs spend in
    a batch system's queue, or on a second attempt, is in no limit.
    """
    ends: dict[str, float] = {}
    for rule in _in_order(loads):
        load = loads[rule]
        begin = max((ends[name] for name in load.after if name in ends), default=0.0)
        ends[rule] = begin + load.seconds
    unknown = tuple(name for name, one in loads.items() if one.jobs and one.walltime is None)
    return Duration(max(ends.values(), default=0.0), unknown)


def _in_order(loads: Mapping[str, Load]) -> Iterable[str]:
    """Return the rules, each after those that it waits for; without recursion: paths are long."""
    order: dict[str, None] = {}
    for start in loads:
        stack = [(start, False)]
        entered: set[str] = set()
        while stack:
            name, left = stack.pop()
            if left:
                order.setdefault(name)
            elif name not in order and name not in entered:
                entered.add(name)
                stack.append((name, True))
                stack += [(one, False) for one in sorted(loads[name].after) if one in loads]
    return order
