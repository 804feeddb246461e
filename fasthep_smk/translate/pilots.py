"""Which jobs go to pilots: batch jobs that stay, and run one job of a pool after the other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace

from fasthep_smk.config.requests import Attempt, Pilot
from fasthep_smk.plan.rules import Rule
from fasthep_smk.storage.pilots import Crew, Crews
from fasthep_smk.translate.snakefile import lengthened
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.units import format_duration

__all__ = ["crews", "too_short"]

#: How many pilots a pool has at most that does not say how many workers.
_MOST = 20
#: Seconds that a pilot lasts at least, if nobody says how long, and how many of its longest jobs.
_LEAST, _JOBS = 3600, 4
#: Seconds from the last moment at which a job can start to that at which it has to have ended.
_MARGIN = 60
#: Bytes of memory that a pilot needs for itself, and for each job that it may run at a time.
_OWN, _EACH = 600 * 10**6, 100 * 10**6
#: Bytes for each job where nobody says how many, and the batch system would give less than one.
_UNSAID: Mapping[str, int] = {"htcondor": 10**9}


def crews(
    rules: Iterable[Rule],
    attempts: Mapping[str, tuple[Attempt, ...]],
    *,
    system: str,
    workers: Mapping[str, int],
    longest: int | None,
) -> Crews:
    """Return the pilots that run the jobs of some rules; ``attempts`` are those of each rule.

    ``workers`` are the most pilots of a pool, ``longest`` is the site's limit in seconds.
    """
    kinds: dict[str, Crew] = {}
    by_rule: dict[str, list[str | None]] = {}
    times: dict[str, int] = {}
    for rule in rules:
        names: list[str | None] = []
        for one in lengthened(rule, attempts[rule.name], longest):
            if one.pilot is None:
                names.append(None)
                continue
            alike = replace(one, request=replace(one.request, walltime=None))
            key = json.dumps([asdict(alike)[part] for part in ("pool", "request", "options")])
            if key not in kinds:
                most = workers.get(one.pool, _MOST)
                name = f"pool{len(kinds)}"
                larger = _larger(alike, one.pilot, _UNSAID.get(system))
                kinds[key] = Crew(name, most, one.pilot.tasks, larger)
            names.append(kinds[key].name)
            times[key] = max(times.get(key, 0), one.request.walltime or 0)
        if any(names):
            by_rule[rule.name] = names
    found = [_lasting(crew, times[key], longest) for key, crew in kinds.items()]
    return Crews(system, {one.name: one for one in found}, by_rule)


def too_short(attempts: Iterable[Attempt]) -> Iterable[Finding]:
    """Yield attempts whose pilot would end before a job that it has just started may."""
    for one in attempts:
        lasts, job = one.pilot.walltime if one.pilot else None, one.request.walltime
        if lasts is not None and job is not None and lasts < job + 2 * _MARGIN:
            yield Finding(
                key=one.place("config.pilot.walltime"),
                problem=f"a pilot of pool {one.pool!r} would end before its first job may",
                value=f"pilot.walltime: {format_duration(lasts)}",
                expected=f"at least {format_duration(job + 2 * _MARGIN)}: jobs have "
                f"{format_duration(job)}, and a pilot needs time to start and to end",
            )


def _larger(attempt: Attempt, pilot: Pilot, unsaid: int | None) -> Attempt:
    """Return what a pilot asks for that runs several such jobs at a time."""
    request, tasks = attempt.request, pilot.tasks
    each = unsaid if request.memory is None else request.memory
    memory = None if each is None else tasks * (each + _EACH) + _OWN
    disk = None if request.disk is None else tasks * request.disk
    larger = replace(
        request,
        cpus=tasks * request.cpus,
        gpus=tasks * request.gpus,
        memory=memory,
        disk=disk,
        walltime=pilot.walltime,
    )
    return replace(attempt, request=larger, origins={}, pilot=None)


def _lasting(crew: Crew, job: int, longest: int | None) -> Crew:
    """Return the crew with its times; ``job`` are the seconds of its longest job, 0: not known."""
    lasts = crew.attempt.request.walltime
    if lasts is None and (job or longest):
        lasts = min(max(_LEAST, _JOBS * job), longest or max(_LEAST, _JOBS * job))
    until = max(1, lasts - job - _MARGIN) if lasts and job else None
    request = replace(crew.attempt.request, walltime=lasts)
    return replace(crew, attempt=replace(crew.attempt, request=request), until=until)
