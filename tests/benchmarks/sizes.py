"""The rule that sizes jobs, replayed on the records of other people's workflows.

The traces are not ours to hand on (one repository names no licence, the other is under the GPL), so
they are read from clones, in any folder below the one that ``--traces`` names:

    git clone https://github.com/dos-group/sizey
    git clone https://github.com/btovar/efficient-resource-allocations

Of each task type, some jobs are drawn as history and the others are sized by it. An attempt that
lacks memory has held its request for the whole time of the job. Waste is what was held beyond what
was used, in bytes times seconds, as a share of what the users' own requests waste.
"""

from __future__ import annotations

import csv
import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fasthep_smk.plan.amounts import grown
from fasthep_smk.plan.sizes import MeasuredJob, first_request

from .measure import Failed
from .report import Figure, Result
from .steps import Settings

__all__ = ["sizes"]

#: The flat request that the jobs of CMS are compared with.
_FLAT = 2.5e9
#: How often history is drawn at each repeat, and how many jobs of each type are then sized by it.
_DRAWS, _SIZED = 40, 40
_LOBSTER = "lobsterCMSsimulation.csv"
#: With so many jobs seen: the waste of nf-core and of CMS and the share of jobs that run twice
#: which are to be reached.
_GOALS = {3: (0.21, 0.64, 0.04), 5: (0.15, 0.62, 0.04), 10: (0.12, 0.42, 0.04)}

First = Callable[[Sequence[MeasuredJob], float | None], float | None]


@dataclass(frozen=True)
class _Job:
    memory: float
    seconds: float
    size: float | None
    preset: float


Trace = dict[str, list[_Job]]


def sizes(settings: Settings) -> Result:
    """Return the waste and retries of the rule with 3, 5 and 10 jobs seen, and of plain ones."""
    pipelines, lobster = _traces(settings.traces)
    rows, figures, draws = list[str](), list[Figure](), _DRAWS * settings.repeats
    for name, first in _RULES.items():
        for seen, (goal, flat_goal, retried_goal) in _GOALS.items():
            replays = [_replay(one, first, seen, draws) for one in pipelines.values()]
            waste = statistics.geometric_mean([one.waste for one in replays])
            retried = sum(one.retried for one in replays) / sum(one.jobs for one in replays)
            flat = _replay(lobster, first, seen, draws)
            rows.append(
                f"{name}, {seen} jobs seen: {waste:.2f} of the presets' waste, "
                f"{retried:.1%} run twice; CMS: {flat.waste:.2f} of a flat 2.5 GB, "
                f"{flat.retried / flat.jobs:.1%}"
            )
            if name == _OURS:
                figures += [
                    Figure(f"nf-core, {seen} jobs seen: waste", waste, goal),
                    Figure(f"nf-core, {seen} jobs seen: run twice", retried, retried_goal),
                    Figure(f"CMS, {seen} jobs seen: waste", flat.waste, flat_goal),
                ]
    jobs = sum(len(found) for one in pipelines.values() for found in one.values())
    many = sum(map(len, lobster.values()))
    what = f"{jobs:,} jobs of {len(pipelines)} nf-core pipelines and {many:,} of CMS, sized anew."
    return Result("sizes", what, [], figures, rows)


@dataclass
class _Replay:
    held: float = 0.0
    preset: float = 0.0
    retried: float = 0.0
    jobs: float = 0.0

    @property
    def waste(self) -> float:
        return self.held / self.preset


def _replay(trace: Trace, first: First, seen: int, draws: int) -> _Replay:
    """Size jobs of a trace by others, ``draws`` times: by so many that are drawn of each type."""
    chance, total = random.Random(seen), _Replay()
    for jobs in trace.values():
        if len(jobs) <= seen:
            continue
        for _ in range(draws):
            drawn = chance.sample(jobs, min(len(jobs), seen + _SIZED))
            chosen, others = drawn[:seen], drawn[seen:]
            history = [MeasuredJob(job.memory, job.size) for job in chosen]
            share = (len(jobs) - seen) / len(others)
            for job in others:
                _size(job, first(history, job.size), history, share, total)
    return total


def _size(
    job: _Job, asked: float | None, history: Sequence[MeasuredJob], share: float, total: _Replay
) -> None:
    """Add what a job holds, which stands for ``share`` jobs."""
    asked = asked if asked is not None else job.preset
    total.jobs += share
    total.retried += share * (asked < job.memory)
    while asked < job.memory:
        total.held += share * asked * job.seconds
        asked = grown(asked, max(one.amount for one in history))
    total.held += share * (asked - job.memory) * job.seconds
    total.preset += share * (max(job.preset, job.memory) - job.memory) * job.seconds


def _most(factor: float) -> First:
    return lambda history, _: factor * max(one.amount for one in history)


def _percentile(history: Sequence[MeasuredJob], _: float | None) -> float:
    taken = sorted(one.amount for one in history)
    return statistics.quantiles(taken, n=20, method="inclusive")[-1]


def _ours(history: Sequence[MeasuredJob], size: float | None) -> float | None:
    return first_request(history, size=size)


_OURS = "the rule"
_RULES: dict[str, First] = {
    _OURS: _ours,
    "most × 1.1": _most(1.1),
    "most × 1.25": _most(1.25),
    "95th percentile": _percentile,
}


def _traces(folder: Path | None) -> tuple[dict[str, Trace], Trace]:
    """Return the traces of pipelines by their names, and that of CMS.

    Raises:
        Failed: they are not there.
    """
    pipelines = sorted(folder.rglob("trace_*.csv")) if folder else []
    lobster = sorted(folder.rglob(_LOBSTER)) if folder else []
    if not pipelines or not lobster:
        raise Failed(f"--traces FOLDER: with clones that hold trace_*.csv and {_LOBSTER}")
    return {path.stem: _pipeline(path) for path in pipelines}, _cms(lobster[0])


def _pipeline(path: Path) -> Trace:
    found: Trace = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            memory, seconds = _number(row["peak_rss"]), _number(row["realtime"])
            preset = _number(row["memory"])
            if row["status"] == "COMPLETED" and memory and seconds and preset:
                job = _Job(memory, seconds / 1e3, _number(row["rchar"]), preset)
                found[row["process"]].append(job)
    return found


def _cms(path: Path) -> Trace:
    found: Trace = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            job = _Job(float(row["memory"]) * 1e6, float(row["wall_time"]), None, _FLAT)
            found[row["category"]].append(job)
    return found


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
