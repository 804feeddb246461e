"""What the jobs of a build folder took, and what such jobs should ask for: a file of sizes."""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import yaml

from fasthep_smk.plan.sizes import MeasuredJob, proposal
from fasthep_smk.storage.jobs import find_build
from fasthep_smk.storage.measured import Taken, taken
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.names import shell
from fasthep_smk.util.units import format_bytes, format_duration

_HEAD = """\
# Memory and time that the jobs in {build} used, and what such jobs should ask for.
# Edit the values below `ask`; those below `measured` are for information only.
# To use this file: fasthep-smk workflow.yaml --sizes FILE
"""


def do_sizes(options: argparse.Namespace) -> int:
    """Print what the jobs of a build folder took, as a file that a run takes with ``--sizes``.

    Raises:
        Findings: it is no build folder, or its task tables cannot be read.
    """
    print(as_yaml(taken(find_build(options.build)), options.build), end="")
    return 0


def as_yaml(jobs: Iterable[Taken], build: Path) -> str:
    """Return what the finished jobs of each rule took in each pool, as a file of sizes."""
    groups: dict[tuple[str, str], list[Taken]] = {}
    for job in jobs:
        groups.setdefault((job.rule, job.pool), []).append(job)
    head = _HEAD.format(build=shell([build]))
    if not groups:
        return f"{head}# No job in this build folder is done yet.\nsizes: []\n"
    text = yaml.safe_dump(
        [_entry(group) for group in groups.values()],
        sort_keys=False,
        default_flow_style=None,
        allow_unicode=True,
        width=100,
    )
    return f"{head}sizes:\n{text}"


def _entry(jobs: Sequence[Taken]) -> JsonObject:
    """Return what jobs of one rule and pool took, and what such jobs should ask for."""
    memory = [(job.memory, job.asked_memory) for job in jobs]
    times = [(job.seconds, job.asked_time) for job in jobs]
    held, enough = _measured(memory, lambda amount: f"{math.ceil(amount / 1e6)}MB", _bytes)
    lasted, limit = _measured(times, lambda amount: f"{amount:.1f}s", format_duration)
    ask = {"memory": _bytes(_ask("memory", jobs, memory, enough))}
    if limit is not None:  # no limit where there was none
        ask["walltime"] = format_duration(_ask("walltime", jobs, times, limit))
    return {
        "stages": list(jobs[0].stages),
        **({} if jobs[0].scope == "partition" else {"scope": jobs[0].scope}),
        "pool": jobs[0].pool,
        "ask": ask,
        "measured": {"jobs": len(jobs), "memory": held, "walltime": lasted},
    }


#: For each job, what it took, and what it had asked for.
_Amounts = Sequence[tuple[float, int | None]]


def _measured(
    amounts: _Amounts, about: Callable[[float], str], exact: Callable[[int], str]
) -> tuple[JsonObject, int | None]:
    """Return what jobs took, as people read it, and the most that any had asked for."""
    values = [value for value, _ in amounts]
    asked = max((had for _, had in amounts if had is not None), default=None)
    texts: JsonObject = {
        "least": about(min(values)),
        "median": about(statistics.median(values)),
        "most": about(max(values)),
    }
    return texts if asked is None else {**texts, "asked": exact(asked)}, asked


def _ask(name: str, jobs: Sequence[Taken], amounts: _Amounts, enough: int | None) -> int:
    """Return how much jobs should ask for; ``enough`` is the most that any had asked for."""
    values = [value for value, _ in amounts]
    measured = [MeasuredJob(n, job.events) for n, job in zip(values, jobs, strict=True)]
    ask = proposal(measured, name) or 0
    if enough is not None and max(values) <= enough:  # a worker may have no more than that
        ask = min(ask, enough)
    return ask


def _bytes(amount: int) -> str:
    return format_bytes(amount).replace(" ", "")
