"""How much a job of a rule asks for, from what the jobs of that rule have taken.

What is measured of a few jobs says little of the largest one to come. So the first request is the
most that was seen, and a margin that falls as jobs are done: the mean step between ``n`` amounts,
``(most - least) / (n - 1)``, which is what the largest of ``n + 1`` equal draws exceeds that of
``n`` by, or ``0.75 * most / (n + 1)`` where the few seen lie close together, or a floor. Where jobs
take more the more they read, a line through (entries, amount) says what a job of that size takes,
and the margin is that of what the line leaves unexplained.

A few jobs that are unlike the others do not decide for all. Of those that took most, at most one
in twenty (of 5 to 19 jobs one, if it took more than twice as much as any other), so many are left
to be tried again as costs least: a job that fits holds in vain what it does not use; one that does
not fit holds all that it has asked for in vain, and then what its next attempt asks for too much.
From twenty jobs on, the line is drawn through the nineteen in twenty that lie closest to it.

What a job asks for that is tried again: :mod:`fasthep_smk.plan.amounts`.

Replayed on traces of others, with 3 / 5 / 10 jobs seen (``python -m tests.benchmarks sizes``): of
the memory that the presets of nf-core pipelines waste, 0.21 / 0.15 / 0.12, and 4 % of the jobs or
fewer run twice. The alternatives that were weighed need more jobs before they pay, or retry more:
B. Tovar et al., "A Job Sizing Strategy for High-Throughput Scientific Workflows", TPDS 29 (2018);
C. Witt et al., "Feedback-Based Resource Allocation for Batch Scheduling", HPCS 2019;
J. Bader et al., "Sizey", CLUSTER 2024 (arXiv 2407.16353); F. Lehmann et al., "Ponder", 2024
(arXiv 2408.00047).
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from fasthep_smk.plan.amounts import grown, whole

#: The least margin: peaks of memory between two looks, a slow disk. Bytes; seconds.
_FLOORS = {"memory": 64e6, "disk": 64e6, "walltime": 60.0}
#: From so many jobs on a proposal needs no check: too little for four in a hundred.
LEAST_JOBS = 3
#: How many times the margin of memory: how long a job takes depends on its node, too.
_MARGINS = {"memory": 1.0, "disk": 1.0, "walltime": 2.0}
#: What a margin begins with, as a share of the most that was seen.
_DECAY = 0.75
#: One in so many jobs at most is unlike the others.
_UNLIKE = 20
#: Or, from so many jobs on, one of them that took more than this many times as much as any other.
_OUTLIER_FROM, _OUTLIER = 5, 2.0
#: What asking for a unit that is not used costs, to losing one. Memory and disk are held from
#: others as long as the job lasts. Time is not, a job that ends is gone: it only starts later where
#: a queue lets short jobs pass.
_UNUSED = {"memory": 1.0, "disk": 1.0, "walltime": 0.1}
#: How often a line is drawn anew through the points that lie closest to it.
_LINES = 5
#: From so many jobs on, a line is drawn if amounts follow sizes as closely as this, and if it
#: leaves at most this share of the spread unexplained.
_LINE_FROM, _CORRELATION, _UNEXPLAINED = 5, 0.5, 0.5


@dataclass(frozen=True)
class MeasuredJob:
    """What a job took of something, and how large it was: entries, bytes; ``None``: not known."""

    amount: float
    size: float | None = None


@dataclass(frozen=True)
class Sizing:
    """What jobs of a rule ask for first: ``flat``, or by their sizes, never below ``least``.

    ``per_size`` is by how much more a job takes that is larger by one, ``start`` the rest of it,
    with the margin.
    """

    flat: float
    least: float
    per_size: float | None = None
    start: float = 0.0

    def request(self, size: float | None) -> int:
        """Return what a job of a size asks for."""
        if self.per_size is None or size is None:
            return math.ceil(self.flat)
        return math.ceil(max(self.start + self.per_size * size, self.least))


def sizing(history: Sequence[MeasuredJob], amount: str = "memory") -> Sizing | None:
    """Return what jobs ask for first, if those of their rule took what ``history`` says.

    ``amount`` is ``memory``, ``disk`` or ``walltime``. ``None``: nothing is known; the request is
    what the pool says.
    """
    if not history:
        return None
    taken = [job.amount for job in history]
    flat = _covering(taken, 0.0, amount)
    if (line := line_through(history)) is None:
        return Sizing(flat, min(taken))
    slope, start = line
    left = [job.amount - start - slope * (job.size or 0) for job in history]
    start += _covering(left, statistics.fmean(taken) - statistics.fmean(left), amount)
    return Sizing(flat, min(taken), slope, start)


def _covering(left: Sequence[float], explained: float, amount: str) -> float:
    """Return what jobs ask for beyond what is ``explained`` of the amounts, if they left that.

    It is the least that covers them all with a margin, or all but the few whom it costs less to try
    again.
    """
    ordered, number = sorted(left), len(left)
    sums = [0.0, *accumulate(ordered)]
    unused = _UNUSED[amount]
    costs: list[tuple[float, float]] = []
    unlike = number // _UNLIKE
    if number >= _OUTLIER_FROM and explained + ordered[-1] > _OUTLIER * (explained + ordered[-2]):
        unlike = max(unlike, 1)
    for fitting in range(number, number - unlike - 1, -1):
        kept = ordered[:fitting]
        asked = kept[-1] + _margin(kept, amount)
        again = grown(explained + asked, explained + ordered[-1]) - explained
        fit = bisect_right(ordered, asked)
        others = number - fit
        held = asked * fit - sums[fit] + again * others - (sums[-1] - sums[fit])
        costs.append((unused * held + others * (explained + asked), asked))
    return min(costs)[1]


def first_request(
    history: Sequence[MeasuredJob], *, size: float | None = None, amount: str = "memory"
) -> int | None:
    """Return what a job of a size asks for first; ``None``: nothing is known of any."""
    estimate = sizing(history, amount)
    return None if estimate is None else estimate.request(size)


def proposal(history: Sequence[MeasuredJob], amount: str) -> int | None:
    """Return what all jobs of a rule ask for at first, in whole units: as much as the largest."""
    largest = max((job.size for job in history if job.size is not None), default=None)
    wanted = first_request(history, size=largest, amount=amount)
    return None if wanted is None else whole(wanted, amount)


def _margin(ordered: Sequence[float], amount: str) -> float:
    number = len(ordered)
    step = (ordered[-1] - ordered[0]) / (number - 1) if number > 1 else 0.0
    return _MARGINS[amount] * max(step, _DECAY * ordered[-1] / (number + 1), _FLOORS[amount])


def line_through(history: Sequence[MeasuredJob]) -> tuple[float, float] | None:
    """Return slope and start of the line that explains amounts by sizes, if one does.

    It explains nineteen in twenty of them; what is left of the others may be anything.
    """
    if len(history) < _LINE_FROM:
        return None
    points = [(job.size, job.amount) for job in history if job.size is not None]
    if len(points) < len(history) or len({size for size, _ in points}) == 1:
        return None
    near = points
    for _ in range(_LINES):
        slope, start = statistics.linear_regression(*zip(*near, strict=True))
        if len(points) < _UNLIKE:
            break
        points.sort(key=lambda point: abs(point[1] - start - slope * point[0]))
        near = points[: len(points) - len(points) // _UNLIKE]
        if len({size for size, _ in near}) == 1:
            return None
    taken = [amount for _, amount in near]
    left = [amount - start - slope * size for size, amount in near]
    if max(taken) == min(taken) or max(left) - min(left) > _UNEXPLAINED * (max(taken) - min(taken)):
        return None
    sizes = [size for size, _ in near]
    return (slope, start) if statistics.correlation(sizes, taken) >= _CORRELATION else None
