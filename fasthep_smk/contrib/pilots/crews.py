"""Which jobs go to pilots: batch jobs that stay, and run one job of a pool after the other."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from fasthep_smk import sites
from fasthep_smk.config.execution import Execution
from fasthep_smk.config.requests import Attempt, Pilot, ResourceRequest
from fasthep_smk.plan.rules import Rule
from fasthep_smk.storage.pilots import Crew, Crews
from fasthep_smk.translate.profile import Placement, pool_token
from fasthep_smk.translate.snakefile import lengthened
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.units import format_duration

#: How many pilots a pool has at most that does not say how many workers.
_MOST = 20
#: Seconds that a pilot lasts at least, if no length is given, and how many of its longest jobs.
_LEAST, _JOBS = 3600, 4
#: Seconds from the last moment at which a job can start to that at which it has to have ended.
_MARGIN = 60
#: Bytes of memory that a pilot needs for itself, and for each job that it may run at a time.
_OWN, _EACH = 600 * 10**6, 100 * 10**6
#: Bytes for each job where no amount is given, and the batch system would give less than one.
_UNSAID: Mapping[str, int] = {"htcondor": 10**9}


def slots(first: Attempt, workers: Mapping[str, int]) -> int:
    """Return how many jobs pilots run at a time, by the first attempt at one; 1 without pilots."""
    return workers.get(first.pool, _MOST) * first.pilot.tasks if first.pilot else 1


def unusable(execution: Execution, *, here: bool) -> str | None:
    """Return why jobs are not run by pilots although a pool asks for them."""
    if here:
        return "all jobs run on this machine"
    if not sites.system(execution.site.system).TAKES_PILOTS:
        name = execution.site.system
        return f"executor {name!r} does not support pilots: each job is a batch job"
    if execution.staging.transfers:
        return "files are sent to jobs (staging.mode: transfer), but pilots need a shared folder"
    if execution.environment is not None and execution.environment.image is not None:
        return "jobs run in a container"
    if importlib.util.find_spec("parsl") is None:
        return "Parsl is not installed (pip install 'fasthep-smk[pilots]'): each job is a batch job"
    return None


def crews_of(placement: Placement, rules: Sequence[Rule]) -> tuple[Crews, list[str]]:
    """Return the pilots that a placement needs, and what a user should know of them."""
    system, site = sites.system(placement.site.system), placement.site
    longest = placement.longest
    return crews(
        rules,
        {rule.name: lengthened(rule, placement.attempts[rule.name], longest) for rule in rules},
        system=site.system,
        workers=placement.workers,
        longest=longest,
        problems=lambda attempt: system.problems([attempt], site),
        apart=placement.together,
    )


@dataclass
class _Kind:
    """Jobs that ask for the same, but for their times.

    ``most`` are the seconds that a batch job of theirs may last, ``job`` those of the longest of
    the jobs that have come, 0 if it does not say. Without a ``crew`` no pilot can run them.
    """

    crew: Crew | None
    most: int | None
    job: int | None = None


def crews(
    rules: Iterable[Rule],
    attempts: Mapping[str, Sequence[Attempt]],
    *,
    system: str,
    workers: Mapping[str, int],
    longest: Callable[[Attempt], int | None],
    problems: Callable[[Attempt], Iterable[Finding]],
    apart: Iterable[str] = (),
) -> tuple[Crews, list[str]]:
    """Return the pilots that run the jobs of some rules, and what a user should know of them.

    ``attempts`` are those of each rule, with time for all jobs of a bundle; ``workers`` are the
    most pilots of a pool. ``longest`` tells for how many seconds a batch job may last, ``problems``
    what the site can never run. Jobs of rules that are ``apart`` are batch jobs of their own. So
    are those that no pilot can run.
    """
    kinds: dict[str, _Kind] = {}
    notes: dict[str, None] = {}

    def without(pool: str, why: str) -> None:
        notes[f"pool {pool!r} has no pilots, so each job is a batch job of its own: {why}"] = None

    def new(alike: Attempt, pilot: Pilot) -> _Kind:
        most, lasts = longest(alike), pilot.walltime
        if lasts is not None and most is not None and lasts > most:
            notes[
                f"pool {alike.pool!r}: pilots last {format_duration(most)} instead of "
                f"{format_duration(lasts)}, because no job may last longer there"
            ] = None
            lasts = most
        larger = _larger(alike, pilot.tasks, lasts, _UNSAID.get(system))
        for wrong in problems(larger):
            fewer = ", or set fewer pilot.tasks" if pilot.tasks > 1 else ""
            without(
                alike.pool,
                "a pilot would be larger than any node (requested "
                f"{wrong.value}; available: {wrong.expected}); ask for less{fewer}",
            )
            return _Kind(None, most)
        name, workers_most = f"pool{len(kinds)}", workers.get(alike.pool, _MOST)
        return _Kind(
            Crew(name, workers_most, pilot.tasks, larger), most if lasts is None else lasts
        )

    def crew_of(attempt: Attempt) -> str | None:
        pilot, job = attempt.pilot, attempt.request.walltime
        if pilot is None:
            return None
        alike = replace(attempt, request=replace(attempt.request, walltime=None))
        key = json.dumps([asdict(alike)[part] for part in ("pool", "request", "options", "pilot")])
        if key not in kinds:
            kinds[key] = new(alike, pilot)
        kind = kinds[key]
        if kind.crew is None:
            return None
        if job is not None and kind.most is not None and job + 2 * _MARGIN > kind.most:
            without(
                attempt.pool,
                f"a pilot may last {format_duration(kind.most)}, too short for a job of "
                f"{format_duration(job)}",
            )
            return None
        kind.job = max(kind.job or 0, job or 0)
        return kind.crew.name

    by_rule: dict[str, list[str | None]] = {}
    alone: set[str] = set()
    for rule in rules:
        of_rule = attempts[rule.name]
        names = [None if rule.name in apart else crew_of(attempt) for attempt in of_rule]
        alone |= {
            attempt.pool for attempt, name in zip(of_rule, names, strict=True) if name is None
        }
        if any(names):
            by_rule[rule.name] = names
    needed = [
        _lasting(kind.crew, kind.job, kind.most)
        for kind in kinds.values()
        if kind.crew is not None and kind.job is not None
    ]
    pools = {crew.attempt.pool for crew in needed} & workers.keys() - alone
    tokens = {pool: pool_token(pool) for pool in pools}
    by_name = {crew.name: crew for crew in needed}
    return Crews(system, by_name, by_rule, list(workers), tokens), list(notes)


def _larger(attempt: Attempt, tasks: int, walltime: int | None, unsaid: int | None) -> Attempt:
    """Return what a pilot asks for that runs several such jobs at a time."""
    request = attempt.request
    each = unsaid if request.memory is None else request.memory
    larger = ResourceRequest(
        cpus=tasks * request.cpus,
        gpus=tasks * request.gpus,
        memory=None if each is None else tasks * (each + _EACH) + _OWN,
        disk=None if request.disk is None else tasks * request.disk,
        walltime=walltime,
    )
    return replace(attempt, request=larger, origins={}, pilot=None)


def _lasting(crew: Crew, job: int, most: int | None) -> Crew:
    """Return the crew with its times; ``job`` are the seconds of its longest job, 0: not known."""
    lasts = crew.attempt.request.walltime
    if lasts is None and (job or most):
        lasts = min(max(_LEAST, _JOBS * job), most or max(_LEAST, _JOBS * job))
    until = max(1, lasts - job - _MARGIN) if lasts and job else None
    request = replace(crew.attempt.request, walltime=lasts)
    return replace(crew, attempt=replace(crew.attempt, request=request), until=until)
