"""Attempts with amounts that were measured, in place of those of their pool.

A file of sizes says them, or earlier jobs, where a pool has ``sizes: auto``.
"""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from fasthep_smk import sites
from fasthep_smk.config.execution import Execution
from fasthep_smk.config.requests import SYSTEMS, Attempt, ResourceRequest, leaf_of
from fasthep_smk.config.routing import Router
from fasthep_smk.config.sizes import Size, entry_of, unknown_names
from fasthep_smk.plan.rules import Rule
from fasthep_smk.plan.sizes import LEAST_JOBS, Sample, proposal
from fasthep_smk.storage.job_settings import Measures, asked_of
from fasthep_smk.storage.measured import Taken, taken
from fasthep_smk.translate import by_dataset
from fasthep_smk.util.errors import Finding, SmkError
from fasthep_smk.util.units import format_bytes, format_duration

__all__ = ["FIRST_MEMORY", "amounts", "sized", "unfit"]

#: Amounts that may follow from what earlier jobs took.
_MEASURED = frozenset(("memory", "walltime"))

#: Bytes for each cpu that jobs ask for while nothing is known: as much as sites of WLCG have.
FIRST_MEMORY = 2 * 10**9
#: Bytes that the last attempt asks for at least: the most that it would get if that was left to
#: Snakemake's plugin for Slurm.
_LAST_MEMORY = 8 * 10**9


@dataclass(frozen=True)
class Amounts:
    """What the jobs of rules ask for at each attempt, by the rules' names.

    ``own`` are the attempts of those that ask for other amounts, by their places, ``measured`` what
    the run has to know of rules whose jobs ask for what others took, and ``stated`` what these
    would ask for else.
    """

    attempts: dict[str, tuple[Attempt, ...]]
    own: dict[str, dict[str, tuple[Attempt, ...]]] = field(default_factory=dict)
    stated: dict[str, tuple[Attempt, ...]] = field(default_factory=dict)
    measured: dict[str, Measures] = field(default_factory=dict)
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
    """Return what jobs ask for where amounts are measured, or not those of the pools.

    ``sizes`` are those of a file, ``here`` is what the one machine has, if the site is one, and
    ``build`` is where earlier jobs are.
    """
    router, system = execution.router, execution.site.system
    findings, notes = unfit(sizes, rules, router)
    findings += by_dataset.unfit(execution.by_dataset, rules, router)
    made = Amounts({}, findings=findings, notes=notes)
    if findings:
        return made
    datasets = {job.dataset for rule in rules for job in rule.jobs.values() if job.dataset}
    own_sizes = [one for one in execution.by_dataset if one.amounts]

    def is_special(one: Taken) -> bool:
        return one.dataset is not None and any(
            size.means(one.dataset, one.file, datasets) for size in own_sizes
        )

    known = history(build, rules, router, is_special=is_special) if build else {}
    proposed = proposals(known)
    nodes, unsaid = _Nodes(system), list[str]()
    for rule in rules:
        # A batch system ends what takes more: it must be possible to ask for more then.
        again = here is not None or rule.route.retries > 0
        free = _MEASURED
        if rule.route.retries == 0:  # one that took longer than others would have failed
            free = _MEASURED - {"walltime"}
        given = sized(rule, sizes, proposed if again else [], router, free)
        before = sized(rule, sizes, [], router, free)
        if here is not None:
            before = tuple(sites.shrink(one, here)[0] for one in before)
        largest: tuple[int | None, ...] = (None,) * len(given)
        if here is None and again and system in SYSTEMS:
            largest = tuple(
                nodes.most_memory(one) if said.request.memory is None else None
                for one, said in zip(given, rule.route.attempts, strict=True)
            )
            first = first_sizes(rule, given, sizes, router, largest)
            unsaid += [
                without.pool
                for without, one in zip(given, first, strict=True)
                if without.request.memory is None and one.request.memory is not None
            ]
            given = first
        made.attempts[rule.name] = given
        if own := by_dataset.own_amounts(rule, own_sizes, given, router, largest=largest):
            made.own[rule.name] = own
        learnt = None
        if again:
            learnt = measuring(rule, before, sizes, known, router, free=free, largest=largest)
        if learnt is not None:
            made.stated[rule.name] = before
            made.measured[rule.name] = {**learnt, "apart": by_dataset.named(rule, own_sizes)}
    if unsaid:
        names = [repr(name) for name in dict.fromkeys(unsaid)]
        made.notes.append(
            f"{'pool' if len(names) == 1 else 'pools'} {', '.join(names)}: no memory is given: "
            f"jobs ask for {format_bytes(FIRST_MEMORY)} for each cpu at first, then for what those "
            "of their rule took; resources: {memory: ...} gives it, and config: {sizes: fixed} "
            "leaves it to the batch system"
        )
    return made


class _Nodes:
    """What the nodes of a batch system have: it is asked once for each kind of job."""

    def __init__(self, system: str) -> None:
        self._system = system
        self._known: dict[str, int | None] = {}

    def most_memory(self, attempt: Attempt) -> int | None:
        """Return the memory of the largest node that a job may run on; ``None``: not known."""
        request = attempt.request
        key = repr((attempt.options.get(self._system), replace(request, memory=None)))
        if key not in self._known:
            self._known[key] = sites.batch(self._system).most_memory(attempt)
        return self._known[key]


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
        one.key: rule
        for rule in rules
        for pool in rule.route.pools
        for one in entry_of(sizes, scope=rule.scope, stages=rule.stages, pool=pool)
    }
    for one in sizes:
        most = router.pools.by_name[one.pool].settings
        for leaf, asked, has, shown in (
            ("memory", one.memory, most.request.memory, format_bytes),
            ("walltime", one.walltime, most.request.walltime, format_duration),
        ):
            if asked is not None and has is not None and asked > has:
                origin = most.origins.get(leaf_of(leaf))
                findings.append(
                    Finding(
                        file=one.file,
                        key=f"{one.key}.ask.{leaf}",
                        problem=f"asks for more than a worker of pool {one.pool!r} has",
                        value=shown(asked),
                        expected=f"at most {shown(has)}" + (f" ({origin})" if origin else ""),
                        hint=f"ask for less, or give pool {one.pool!r} larger workers",
                    )
                )
    notes = [
        f"{one.file}: {one.key}: no rule of pool {one.pool!r} has these stages together, "
        f"{', '.join(one.stages) or 'none'}: it has no effect"
        for one in sizes
        if one.key not in taken
    ]
    return findings, notes


#: What jobs took, by their scope, stages and pool.
History = Mapping[tuple[str, tuple[str, ...], str], Sequence[Taken]]


def history(
    build: Path, rules: Iterable[Rule], router: Router, *, is_special: Callable[[Taken], bool]
) -> History:
    """Return what the jobs that earlier runs have left took, if a rule asks for that.

    Left out are those that are special: not like the others.
    """
    routes = [(pool, rule.stages) for rule in rules for pool in rule.route.pools]
    found: dict[tuple[str, tuple[str, ...], str], list[Taken]] = defaultdict(list)
    if any(router.measures(pool, stages) for pool, stages in routes):
        with contextlib.suppress(OSError, SmkError):  # what cannot be read says nothing
            for one in (one for one in taken(build) if not is_special(one)):
                found[one.scope, one.stages, one.pool].append(one)
    return found


def proposals(known: History) -> list[Size]:
    """Return what jobs should ask for; a few of them say too little."""
    return [
        Size(
            stages=stages,
            scope=scope,
            pool=pool,
            memory=proposal([Sample(one.memory, one.events) for one in jobs], "memory"),
            walltime=proposal([Sample(one.seconds, one.events) for one in jobs], "walltime"),
            key=f"sizes: auto, {len(jobs)} jobs measured",
        )
        for (scope, stages, pool), jobs in known.items()
        if len(jobs) >= LEAST_JOBS
    ]


def measuring(
    rule: Rule,
    stated: Sequence[Attempt],
    sizes: Sequence[Size],
    known: History,
    router: Router,
    *,
    free: Collection[str],
    largest: Sequence[int | None],
) -> Measures | None:
    """Return what a run has to know to size the jobs of a rule while it goes on, if it does.

    ``free`` are the amounts that may follow from what others took, ``largest`` is the memory of the
    largest node for each attempt, where what a worker has is unknown.
    """

    def names(attempt: Attempt) -> list[str]:
        said = entry_of(sizes, scope=rule.scope, stages=rule.stages, pool=attempt.pool)
        if said or attempt.pilot:
            return []
        return [name for name in router.measures(attempt.pool, rule.stages) if name in free]

    named = [names(attempt) for attempt in stated]
    if not any(named):
        return None
    return {
        "most": [asked_of(attempt) for attempt in stated],
        "names": named,
        "taken": {
            pool: [(one.memory, one.seconds, one.events) for one in jobs]
            for pool in rule.route.pools
            if (jobs := known.get((rule.scope, rule.stages, pool)))
        },
        "apart": {},
        "options": [attempt.options for attempt in stated],
        "largest": [*largest],
    }


def sized(
    rule: Rule, sizes: Sequence[Size], found: Sequence[Size], router: Router, free: Collection[str]
) -> tuple[Attempt, ...]:
    """Return the attempts of a rule's jobs, asking for what a file says, or for what was ``found``.

    ``free`` are the amounts that may follow from the latter. What is tried again asks for more
    memory, up to all that a worker of its pool has, and for all the time of its pool. Jobs of
    pilots ask for nothing: their slots are cut.
    """
    made: list[Attempt] = []
    for attempt in rule.route.attempts:
        names: tuple[str, ...] = ("memory", "walltime")
        of_rule = partial(entry_of, scope=rule.scope, stages=rule.stages, pool=attempt.pool)
        entries = of_rule(sizes)
        if not entries:
            measured = router.measures(attempt.pool, rule.stages)
            names = tuple(name for name in measured if name in free)
            entries = of_rule(found) if names else []
        if not entries or attempt.pilot:
            made.append(attempt)
            continue
        before = sum(one.pool == attempt.pool for one in made)
        one = _sized(attempt, entries, names, rule, router, before)
        if before and not entries[0].file and attempt is rule.route.attempts[-1]:
            # The last one lacks nothing that it could have.
            most = router.pools.by_name[attempt.pool].settings.request.memory
            one = replace(one, request=replace(one.request, memory=most or one.request.memory))
        made.append(one)
    return tuple(made)


def first_sizes(
    rule: Rule,
    given: Sequence[Attempt],
    sizes: Sequence[Size],
    router: Router,
    largest: Sequence[int | None],
) -> tuple[Attempt, ...]:
    """Return attempts with a first amount of memory for measured jobs where none is given.

    What is tried again asks for more, up to that of the ``largest`` node for each attempt. The last
    one of jobs of which no file of ``sizes`` says an amount is not small because others took
    little.
    """
    made: list[Attempt] = []
    for attempt, said, most in zip(given, rule.route.attempts, largest, strict=True):
        if attempt.pilot or said.request.memory is not None:
            made.append(attempt)
            continue
        before = sum(one.pool == attempt.pool for one in made)
        memory, origins = attempt.request.memory, attempt.origins
        measured = _is_measured(attempt.pool, rule, sizes, router)
        if measured:
            if memory is None:
                growth = Fraction(str(router.growth(attempt.pool, rule.stages)))
                memory = math.ceil(growth**before * FIRST_MEMORY * attempt.request.cpus)
                origins = {**origins, leaf_of("memory"): "sizes: auto, before any job is measured"}
            if said is rule.route.attempts[-1]:
                memory = max(memory, _LAST_MEMORY)
        if memory is not None and (measured or before):
            memory = min(memory, most or memory)
        made.append(
            replace(attempt, request=replace(attempt.request, memory=memory), origins=origins)
        )
    return tuple(made)


def _is_measured(pool: str, rule: Rule, sizes: Sequence[Size], router: Router) -> bool:
    """Whether no file of sizes says the memory of a rule's jobs, so that others decide."""
    said = entry_of(sizes, scope=rule.scope, stages=rule.stages, pool=pool)
    return all(one.memory is None for one in said) and "memory" in router.measures(
        pool, rule.stages
    )


def _sized(
    attempt: Attempt,
    entries: Sequence[Size],
    names: Sequence[str],
    rule: Rule,
    router: Router,
    before: int,
) -> Attempt:
    """Return an attempt that has ``before`` others in its pool before it."""
    most = router.pools.by_name[attempt.pool].settings.request
    request, origins = attempt.request, dict(attempt.origins)
    memories = {one.memory: one for one in reversed(entries) if one.memory is not None}
    if memories and "memory" in names:
        growth = Fraction(str(router.growth(attempt.pool, rule.stages)))
        memory = math.ceil(growth**before * max(memories))
        request = replace(request, memory=min(memory, most.memory or memory))
        origins[leaf_of("memory")] = memories[max(memories)].place("ask.memory")
    times = [one.walltime for one in entries if one.walltime is not None]
    # One after the other; of one that says no time, nobody knows how long it takes.
    if len(times) == len(entries) and "walltime" in names and not before:
        walltime = sum(times)
        request = replace(request, walltime=min(walltime, most.walltime or walltime))
        origins[leaf_of("walltime")] = ", ".join(one.place("ask.walltime") for one in entries)
    return replace(attempt, request=request, origins=origins)
