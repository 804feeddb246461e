"""What is said of jobs whose amounts are measured, or are not those of their pool.

A file of sizes says them, or earlier jobs, where a pool has ``sizes: auto``.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import msgspec

from fasthep_smk import sites
from fasthep_smk.config.execution import Execution
from fasthep_smk.config.requests import SYSTEMS, Attempt, ResourceRequest, leaf_of
from fasthep_smk.config.routing import Router, more_than_a_worker
from fasthep_smk.config.sizes import Size, entry_of, unknown_names
from fasthep_smk.plan.amounts import GROWING, Known, KnownOf, saying
from fasthep_smk.plan.rules import Rule
from fasthep_smk.plan.sizes import LEAST_JOBS, MeasuredJob, proposal
from fasthep_smk.storage.measured import Changing, History, Taken, taken
from fasthep_smk.translate import by_dataset
from fasthep_smk.translate.profile import ALL, Placement
from fasthep_smk.util.errors import Finding, SmkError
from fasthep_smk.util.units import format_bytes

#: Bytes for each cpu that jobs ask for while nothing is known: as much as sites of WLCG have.
FIRST_MEMORY = 2 * 10**9
#: Bytes that the last attempt asks for at least: the most that it would get if that was left to
#: Snakemake's plugin for Slurm.
_LAST_MEMORY = 8 * 10**9
_UNMEASURED = "sizes: auto, before any job is measured"


@dataclass(frozen=True)
class Amounts:
    """What is said of the attempts of jobs: by the rules' names, and in each by places.

    ``ALL`` are those that are not like jobs at other places. ``history`` is what the jobs took that
    earlier runs have left, ``known`` what follows from it for each rule.
    """

    stated: dict[str, dict[str, tuple[Attempt, ...]]] = field(default_factory=dict)
    history: History = field(default_factory=dict)
    known: dict[str, KnownOf] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def amounts(
    rules: Sequence[Rule],
    execution: Execution,
    *,
    sizes: Sequence[Size],
    here: ResourceRequest | None,
    build: Path | None,
) -> Amounts:
    """Return what is said of jobs where amounts are measured, or are not those of the pools.

    ``sizes`` are those of a file, ``here`` is what the one machine has, if the site is one, and
    ``build`` is where earlier jobs are.
    """
    router, system = execution.router, execution.site.system
    findings, notes = unfit(sizes, rules, router)
    findings += by_dataset.unfit(execution.by_dataset, rules, router)
    if findings:
        return Amounts(findings=findings, notes=notes)
    datasets = {job.dataset for rule in rules for job in rule.jobs.values() if job.dataset}
    own_sizes = [size for size in execution.by_dataset if size.amounts]

    def is_special(job: Taken) -> bool:
        return job.dataset is not None and any(
            size.means(job.dataset, job.file, datasets) for size in own_sizes
        )

    history = history_of(build, rules, router, is_special=is_special) if build else {}
    sized = Amounts(history=history, notes=notes)
    measured = measured_sizes(history)
    batch = sites.system(system) if here is None and system in SYSTEMS else None
    node = _of_largest_node(batch) if batch else None
    unsaid, piloted = list[str](), list[str]()
    for rule in rules:
        sized.known[rule.name] = known = known_of(rule, measured)
        stated = tuple(
            _stated(attempt, rule, sizes, router, node, here=here is not None)
            for attempt in rule.route.attempts
        )
        unsaid += [
            repr(attempt.pool)
            for attempt in stated
            if attempt.origins.get(leaf_of("memory")) == _UNMEASURED
            and known(attempt.pool, "memory").first is None
        ]
        own = by_dataset.own_amounts(rule, own_sizes, stated, router, node, known)
        if own and any(attempt.pilot for attempt in stated):
            piloted.append(rule.name)
            own = {}
        sized.stated[rule.name] = {ALL: stated, **own}
    if names := [*dict.fromkeys(unsaid)]:
        notes.append(
            f"{'pool' if len(names) == 1 else 'pools'} {', '.join(names)}: no memory is set. Jobs "
            f"first request {format_bytes(FIRST_MEMORY)} per cpu, later what earlier jobs of their "
            "rule used. 'resources: {memory: ...}' sets the memory; with 'config: {sizes: fixed}', "
            "the batch system chooses it"
        )
    if piloted:
        notes.append(
            f"execution.sizes.by_dataset has no effect on rules {', '.join(piloted)}: pilots run "
            "their jobs, and all jobs of a pilot have the same size"
        )
    return sized


def _of_largest_node(batch: sites.System) -> Callable[[Attempt], int | None]:
    """Return what tells the memory of the largest node that a job may run on, if it is known.

    The batch system is asked once for each kind of job.
    """
    known: dict[str, int | None] = {}

    def most_memory(attempt: Attempt) -> int | None:
        key = repr((attempt.options, replace(attempt.request, memory=None)))
        if key not in known:
            known[key] = batch.most_memory(attempt)
        return known[key]

    return most_memory


def _stated(
    attempt: Attempt,
    rule: Rule,
    sizes: Sequence[Size],
    router: Router,
    node: by_dataset.MostMemory | None,
    *,
    here: bool,
) -> Attempt:
    """Return what is said of an attempt, by a file of sizes too, and what of it is measured.

    Jobs of pilots ask for nothing: their slots are cut. ``node`` tells the memory of the largest
    one of the batch system, if that is one that we know; ``here``: jobs run on this machine.
    """
    if attempt.pilot:
        return attempt
    measured = set(router.measures(attempt.pool, rule.stages))
    if rule.route.retries == 0:
        # There is no attempt with more time; a batch system ends what takes more memory, too.
        measured -= {"walltime"} if here else {*GROWING}
    entries = entry_of(sizes, scope=rule.scope, stages=rule.stages, pool=attempt.pool)
    of_file = {
        name: size
        for name in GROWING
        if entries and (size := _together(entries, name)).first is not None
    }
    if entries:
        measured &= {"memory"} - of_file.keys()
    said: dict[str, int | None] = {}
    why, most, largest = dict[str, str](), dict(attempt.most), None
    if node is not None and attempt.request.memory is None:
        largest = node(attempt)
        if "memory" in measured:
            first, is_last = FIRST_MEMORY * attempt.request.cpus, attempt is rule.route.attempts[-1]
            said["memory"] = max(first, _LAST_MEMORY) if is_last else first
            why["memory"] = _UNMEASURED
            most |= {"memory": largest} if largest else {}
    worker = router.pools.by_name[attempt.pool].settings.request
    limits = {"memory": worker.memory, "walltime": attempt.request.walltime}
    for name, size in of_file.items():
        limit, wanted = limits[name], size.first or 0
        if limit is None and name == "memory" and largest:
            limit = max(largest, wanted)
        most.pop(name, None)
        most |= {name: limit} if limit else {}
        said[name], why[name] = min(wanted, most.get(name, wanted)), size.why
    return replace(
        saying(attempt, said, why, most),
        measured=tuple(name for name in GROWING if name in measured),
    )


def _together(entries: Sequence[Size], name: str) -> Known:
    """Return what stages in one job ask for, by what is said of some of them each.

    That is the most memory, and the time of one after the other; of one that says no time, nobody
    knows how long it takes.
    """
    asked = {size: amount for size in entries if (amount := getattr(size, name)) is not None}
    if not asked:
        return Known()
    if name == "memory":
        largest = max(asked, key=lambda size: asked[size])
        return Known(asked[largest], why=largest.place("ask.memory"))
    if len(asked) < len(entries):
        return Known()
    return Known(sum(asked.values()), why=", ".join(size.place(f"ask.{name}") for size in asked))


def measured_sizes(history: History) -> list[Size]:
    """Return what jobs should ask for by what others took; a few of them say too little."""
    return [
        Size(
            stages=stages,
            scope=scope,
            pool=pool,
            memory=proposal([MeasuredJob(job.memory, job.events) for job in jobs], "memory"),
            walltime=proposal([MeasuredJob(job.seconds, job.events) for job in jobs], "walltime"),
            key=f"sizes: auto, {len(jobs)} jobs measured",
        )
        for (scope, stages, pool), jobs in history.items()
        if len(jobs) >= LEAST_JOBS
    ]


def known_of(rule: Rule, measured: Sequence[Size]) -> KnownOf:
    """Return what tells what is known in a pool of an amount that jobs of a rule take.

    Of stages that share a job only now, what they took in jobs of their own.
    """

    @cache
    def known(pool: str, name: str) -> Known:
        return _together(entry_of(measured, scope=rule.scope, stages=rule.stages, pool=pool), name)

    return known


def unfit(
    sizes: Sequence[Size], rules: Iterable[Rule], router: Router
) -> tuple[list[Finding], list[str]]:
    """Return what of a file of sizes no rule can ask for, and what has no effect."""
    rules = list(rules)
    stages = dict.fromkeys(stage for rule in rules for stage in rule.stages)
    findings = [*unknown_names(sizes, stages=stages, pools=router.pools.by_name)]
    if findings:
        return findings, []
    taken = {
        size.key: rule
        for rule in rules
        for pool in rule.route.pools
        for size in entry_of(sizes, scope=rule.scope, stages=rule.stages, pool=pool)
    }
    for size in sizes:
        asked = ResourceRequest(memory=size.memory, walltime=size.walltime)
        for name in GROWING:
            pool, key = router.pools.by_name[size.pool], f"{size.key}.ask.{name}"
            findings += more_than_a_worker(pool, name, asked, size.file, key)
    notes = [
        f"{size.file}: {size.key}: has no effect, because no rule of pool {size.pool!r} has all of "
        f"these stages: {', '.join(size.stages) or 'none'}"
        for size in sizes
        if size.key not in taken
    ]
    return findings, notes


def history_of(
    build: Path, rules: Iterable[Rule], router: Router, *, is_special: Callable[[Taken], bool]
) -> History:
    """Return what the jobs that earlier runs have left took, if a rule asks for that.

    Left out are those that are special: not like the others.
    """
    routes = [(pool, rule.stages) for rule in rules for pool in rule.route.pools]
    history: dict[tuple[str, tuple[str, ...], str], list[Taken]] = defaultdict(list)
    if any(router.measures(pool, stages) for pool, stages in routes):
        with contextlib.suppress(OSError, SmkError):  # what cannot be read says nothing
            for job in (job for job in taken(build) if not is_special(job)):
                history[job.scope, job.stages, job.pool].append(job)
    return history


def changing(rules: Iterable[Rule], placement: Placement) -> str:
    """Return the text of ``sizes.json``: of the rules whose jobs may ask for other amounts."""
    by_rule: dict[str, Changing] = {}
    names = placement.changing
    for rule in (rule for rule in rules if rule.name in names):
        by_place = placement.stated[rule.name]
        by_rule[rule.name] = Changing(
            stated=by_place[ALL],
            own={place: attempts for place, attempts in by_place.items() if place != ALL},
            taken={
                pool: [(job.memory, job.seconds, job.events) for job in placement.history[jobs]]
                for pool in rule.route.pools
                if (jobs := (rule.scope, rule.stages, pool)) in placement.history
            },
            # Rules that were bundled since have other names for their jobs.
            wildcards=rule.named_by,
            together=rule.together,
            longest=tuple(
                placement.longest(attempt) if rule.together > 1 else None
                for attempt in by_place[ALL]
            ),
        )
    return msgspec.json.encode(by_rule).decode() + "\n"
