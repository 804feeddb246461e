"""How long the rest of a run may take, by how long its jobs took so far: a pure function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

#: An estimate from fewer jobs would be no more than a guess.
_JOBS = 2
#: The least part of a job that is taken to be left, however long it has run.
_LEAST_LEFT = 0.1


@dataclass(frozen=True)
class Pace:
    """The jobs of one rule: how many are done, what they took together, how many are to start."""

    done: int = 0
    seconds: float = 0.0
    waiting: int = 0


def seconds_left(
    rules: Mapping[str, Pace], running: Iterable[tuple[str, float]], *, ended: int = 0
) -> float | None:
    """Return how long the rest of a run may take, or ``None`` if that cannot be said yet.

    ``running`` are the rules of the jobs under way, and for how long each has run. Jobs to do are
    taken to last as long as those of their rule did, and as many of them to run at a time as now.
    In the place of those that have ``ended`` just now, others are about to run.
    """
    under_way = list(running)
    done = sum(pace.done for pace in rules.values())
    if done < _JOBS or not under_way:
        return None
    common = sum(pace.seconds for pace in rules.values()) / done
    mean = {rule: pace.seconds / pace.done if pace.done else common for rule, pace in rules.items()}
    work = sum(mean[rule] * pace.waiting for rule, pace in rules.items())
    work += sum(max(mean[rule] - ran, _LEAST_LEFT * mean[rule]) for rule, ran in under_way)
    waiting = sum(pace.waiting for pace in rules.values())
    return work / (len(under_way) + min(ended, waiting))
