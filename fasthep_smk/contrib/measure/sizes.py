"""What the jobs of a build folder took, and what such jobs should ask for: a file of sizes."""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True)
class MeasuredAmount:
    """What jobs took of memory (bytes) or time (seconds), what they asked for, what they should."""

    least: float
    median: float
    most: float
    asked: int | None
    ask: int


@dataclass(frozen=True)
class Evidence:
    """What the jobs of a rule took in a pool."""

    rule: str
    scope: str
    stages: tuple[str, ...]
    pool: str
    jobs: int
    memory: MeasuredAmount
    walltime: MeasuredAmount


def do_sizes(options: argparse.Namespace) -> int:
    """Print what the jobs of a build folder took, as a file of sizes or as JSON.

    Raises:
        Findings: it is no build folder, or its task tables cannot be read.
    """
    groups = evidence(taken(find_build(options.build)))
    if options.json:
        print(json.dumps({"sizes": [asdict(group) for group in groups]}, indent=1))
    else:
        print(as_yaml(groups, options.build), end="")
    return 0


def evidence(jobs: Iterable[Taken]) -> list[Evidence]:
    """Return what the finished jobs of each rule took in each pool."""
    groups: dict[tuple[str, str], list[Taken]] = defaultdict(list)
    for job in jobs:
        groups[job.rule, job.pool].append(job)
    return [
        Evidence(
            rule=rule,
            scope=group[0].scope,
            stages=group[0].stages,
            pool=pool,
            jobs=len(group),
            memory=_amount("memory", group, [(job.memory, job.asked_memory) for job in group]),
            walltime=_amount("walltime", group, [(job.seconds, job.asked_time) for job in group]),
        )
        for (rule, pool), group in groups.items()
    ]


def _amount(
    name: str, jobs: Sequence[Taken], amounts: Sequence[tuple[float, int | None]]
) -> MeasuredAmount:
    """Return what jobs took; ``amounts`` are that of each, with what it had asked for."""
    values = [value for value, _ in amounts]
    ask = (
        proposal([MeasuredJob(n, job.events) for n, job in zip(values, jobs, strict=True)], name)
        or 0
    )
    enough = max((had for _, had in amounts if had is not None), default=None)
    if enough is not None and max(values) <= enough:  # a worker may have no more than that
        ask = min(ask, enough)
    return MeasuredAmount(
        least=min(values),
        median=statistics.median(values),
        most=max(values),
        asked=enough,
        ask=ask,
    )


def as_yaml(groups: Iterable[Evidence], build: Path) -> str:
    """Return the evidence as a file that a run takes with ``--sizes``."""
    entries = [_entry(group) for group in groups]
    head = _HEAD.format(build=shell([build]))
    if not entries:
        return f"{head}# No job in this build folder is done yet.\nsizes: []\n"
    text = yaml.safe_dump(
        entries, sort_keys=False, default_flow_style=None, allow_unicode=True, width=100
    )
    return f"{head}sizes:\n{text}"


def _entry(group: Evidence) -> JsonObject:
    memory, time = group.memory, group.walltime
    held = _measured(memory, lambda amount: f"{math.ceil(amount / 1e6)}MB", _bytes)
    lasted = _measured(time, lambda amount: f"{amount:.1f}s", format_duration)
    ask = {"memory": _bytes(memory.ask)}
    if time.asked is not None:  # no limit where there was none
        ask["walltime"] = format_duration(time.ask)
    return {
        "stages": list(group.stages),
        **({} if group.scope == "partition" else {"scope": group.scope}),
        "pool": group.pool,
        "ask": ask,
        "measured": {"jobs": group.jobs, "memory": held, "walltime": lasted},
    }


def _measured(
    amount: MeasuredAmount, about: Callable[[float], str], exact: Callable[[int], str]
) -> JsonObject:
    texts: JsonObject = {name: about(getattr(amount, name)) for name in ("least", "median", "most")}
    return texts if amount.asked is None else {**texts, "asked": exact(amount.asked)}


def _bytes(amount: int) -> str:
    return format_bytes(amount).replace(" ", "")
