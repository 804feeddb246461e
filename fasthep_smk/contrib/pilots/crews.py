"""Which jobs go to pilots: batch jobs that stay, and run one job of a pool after the other."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from fasthep_smk import sites
from fasthep_smk.config.execution import Execution
from fasthep_smk.config.requests import Attempt, Pilot
from fasthep_smk.plan.rules import Rule
from fasthep_smk.storage.pilots import Crew, Crews
from fasthep_smk.translate.profile import Placement, pool_token
from fasthep_smk.translate.snakefile import lengthened
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.units import format_duration

__all__ = ["crews", "crews_of", "slots", "too_short", "unusable"]

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
        return "all jobs are on this machine"
    if not sites.has_pilots(execution.site.system):
        return f"executor {execution.site.system!r} offers none, each job is a batch job"
    if execution.staging.transfers:
        return "jobs are sent their files (staging.mode: transfer), and pilots share the folder"
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
        {one.name: lengthened(one, placement.attempts[one.name], longest) for one in rules},
        system=site.system,
        workers=placement.workers,
        longest=longest,
        problems=lambda attempt: system.problems([attempt], site),
        apart=placement.together,
    )


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
    made = _Made(system, workers, longest, problems)
    by_rule: dict[str, list[str | None]] = {}
    alone: set[str] = set()
    for rule in rules:
        given = attempts[rule.name]
        names = [None if rule.name in apart else made.crew_of(one) for one in given]
        alone |= {one.pool for one, name in zip(given, names, strict=True) if name is None}
        if any(names):
            by_rule[rule.name] = names
    found = made.lasting()
    tokens = {
        one.attempt.pool: pool_token(one.attempt.pool)
        for one in found
        if one.attempt.pool in workers and one.attempt.pool not in alone
    }
    by_name = {one.name: one for one in found}
    return Crews(system, by_name, by_rule, list(workers), tokens), list(made.notes)


@dataclass
class _Made:
    """Crews in the making, one for each kind of request: of these, only the times differ.

    ``jobs`` are the seconds of the longest job of each, by the name of the crew.
    """

    system: str
    workers: Mapping[str, int]
    longest: Callable[[Attempt], int | None]
    problems: Callable[[Attempt], Iterable[Finding]]
    kinds: dict[str, Crew | None] = field(default_factory=dict)
    limits: dict[str, int | None] = field(default_factory=dict)
    jobs: dict[str, int] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def crew_of(self, attempt: Attempt) -> str | None:
        """Return the crew of an attempt, if pilots can run it."""
        pilot, job = attempt.pilot, attempt.request.walltime
        if pilot is None:
            return None
        alike = replace(attempt, request=replace(attempt.request, walltime=None))
        key = json.dumps([asdict(alike)[part] for part in ("pool", "request", "options", "pilot")])
        if key not in self.kinds:
            self.limits[key] = self.longest(alike)
            self.kinds[key] = self._new(alike, pilot, self.limits[key])
        crew = self.kinds[key]
        if crew is None:
            return None
        lasts = crew.attempt.request.walltime
        most = self.limits[key] if lasts is None else lasts
        if job is not None and most is not None and job + 2 * _MARGIN > most:
            self._alone(
                attempt,
                f"a pilot may last {format_duration(most)}, too short for a job of "
                f"{format_duration(job)}",
            )
            return None
        self.jobs[crew.name] = max(self.jobs.get(crew.name, 0), job or 0)
        return crew.name

    def _new(self, alike: Attempt, pilot: Pilot, longest: int | None) -> Crew | None:
        lasts = pilot.walltime
        if lasts is not None and longest is not None and lasts > longest:
            self.notes[
                f"pool {alike.pool!r}: pilots last {format_duration(longest)}, which is the limit "
                f"there, instead of {format_duration(lasts)}"
            ] = None
            pilot = replace(pilot, walltime=longest)
        larger = _larger(alike, pilot, _UNSAID.get(self.system))
        wrong = next(iter(self.problems(larger)), None)
        if wrong is not None:
            fewer = ", or fewer pilot.tasks" if pilot.tasks > 1 else ""
            self._alone(
                alike,
                f"a pilot would be larger than what there is ({wrong.value}; {wrong.expected}); "
                f"ask for less{fewer}",
            )
            return None
        most = self.workers.get(alike.pool, _MOST)
        return Crew(f"pool{len(self.kinds)}", most, pilot.tasks, larger)

    def _alone(self, attempt: Attempt, why: str) -> None:
        text = f"pool {attempt.pool!r}: no pilots, each job is a batch job of its own: {why}"
        self.notes[text] = None

    def lasting(self) -> list[Crew]:
        """Return the crews that have jobs, with their times."""
        return [
            _lasting(crew, self.jobs[crew.name], self.limits[key])
            for key, crew in self.kinds.items()
            if crew is not None and crew.name in self.jobs
        ]


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
