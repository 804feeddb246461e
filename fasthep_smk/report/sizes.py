"""What the jobs of a build folder took, and what such jobs should ask for: a file of sizes."""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from fasthep_smk.plan.sizes import Sample, proposal
from fasthep_smk.storage.jobs import find_build
from fasthep_smk.storage.measured import Taken, taken
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.names import shell
from fasthep_smk.util.units import format_bytes, format_duration

__all__ = ["Amount", "Evidence", "as_data", "as_yaml", "do_sizes", "evidence"]

_HOUR, _GB = 3600, 1e9

_HEAD = """\
# What the jobs in {build} took, and what such jobs should ask for.
# Edit what stands at `ask`; what was measured is there to be read, and has no effect.
# To use it: fasthep-smk workflow.yaml --sizes FILE
"""


@dataclass(frozen=True)
class Amount:
    """What jobs took of memory (bytes) or time (seconds), what they asked for, what they should.

    ``saved`` is what the jobs that ran would have left to others: bytes, or seconds, times the
    seconds that they ran.
    """

    least: float
    median: float
    most: float
    asked: int | None
    ask: int
    saved: float | None


@dataclass(frozen=True)
class Evidence:
    """What the jobs of a rule took in a pool."""

    rule: str
    scope: str
    stages: tuple[str, ...]
    pool: str
    jobs: int
    memory: Amount
    walltime: Amount


def do_sizes(options: argparse.Namespace) -> int:
    """Print what the jobs of a build folder took."""
    found = evidence(taken(find_build(options.build)))
    if options.json:
        print(json.dumps(as_data(found), indent=1))
    else:
        print(as_yaml(found, options.build), end="")
    return 0


def evidence(jobs: Iterable[Taken]) -> list[Evidence]:
    """Return what the finished jobs of each rule took in each pool."""
    groups: dict[tuple[str, str], list[Taken]] = defaultdict(list)
    for one in jobs:
        groups[one.rule, one.pool].append(one)
    return [_evidence(found) for found in groups.values()]


def _evidence(jobs: Sequence[Taken]) -> Evidence:
    first = jobs[0]
    times = [one.seconds for one in jobs]
    return Evidence(
        rule=first.rule,
        scope=first.scope,
        stages=first.stages,
        pool=first.pool,
        jobs=len(jobs),
        memory=_amount("memory", jobs, [one.memory for one in jobs], times),
        walltime=_amount("walltime", jobs, times, times),
    )


def _amount(
    name: str, jobs: Sequence[Taken], values: Sequence[float], times: Sequence[float]
) -> Amount:
    asked = [one.asked_memory if name == "memory" else one.asked_time for one in jobs]
    history = [Sample(value, one.events) for value, one in zip(values, jobs, strict=True)]
    ask = proposal(history, name) or 0
    known = [(had, time) for had, time in zip(asked, times, strict=True) if had is not None]
    enough = max((had for had, _ in known), default=None)
    if enough is not None and max(values) <= enough:  # a worker may have no more than that
        ask = min(ask, enough)
    return Amount(
        least=min(values),
        median=statistics.median(values),
        most=max(values),
        asked=enough,
        ask=ask,
        saved=sum((had - ask) * time for had, time in known) if known else None,
    )


def as_data(found: Iterable[Evidence]) -> JsonObject:
    """Return the evidence as plain data: bytes, seconds, and bytes times seconds."""
    return {
        "sizes": [
            {**vars(one), "memory": vars(one.memory), "walltime": vars(one.walltime)}
            for one in found
        ]
    }


def as_yaml(found: Iterable[Evidence], build: Path) -> str:
    """Return the evidence as a file that a run takes with ``--sizes``."""
    entries = [_entry(one) for one in found]
    head = _HEAD.format(build=shell([build]))
    if not entries:
        return f"{head}# No job is done there yet.\nsizes: []\n"
    text = yaml.safe_dump(
        entries, sort_keys=False, default_flow_style=None, allow_unicode=True, width=100
    )
    return f"{head}sizes:\n{text}"


def _entry(one: Evidence) -> JsonObject:
    ask = {"memory": _bytes(one.memory.ask)}
    if one.walltime.asked is not None:  # no limit where there was none
        ask["walltime"] = format_duration(one.walltime.ask)
    memory, time = one.memory, one.walltime
    measured: JsonObject = {
        "memory": {
            "least": _about(memory.least),
            "median": _about(memory.median),
            "most": _about(memory.most),
            **({} if memory.asked is None else {"asked": _bytes(memory.asked)}),
            **({} if memory.saved is None else {"saved": _gb_hours(memory.saved)}),
        },
        "walltime": {
            "least": _seconds(time.least),
            "median": _seconds(time.median),
            "most": _seconds(time.most),
            **({} if time.asked is None else {"asked": format_duration(time.asked)}),
        },
    }
    return {
        "stages": list(one.stages),
        **({} if one.scope == "partition" else {"scope": one.scope}),
        "pool": one.pool,
        "ask": ask,
        "measured": {"jobs": one.jobs, **measured},
    }


def _bytes(amount: int) -> str:
    return format_bytes(amount).replace(" ", "")


def _about(amount: float) -> str:
    return f"{math.ceil(amount / 1e6)}MB"


def _seconds(amount: float) -> str:
    return f"{amount:.1f}s"


def _gb_hours(amount: float) -> str:
    return f"{amount / _GB / _HOUR:.3g} GB·h"
