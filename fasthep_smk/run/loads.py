"""What rules that were sent to a site may take there, for :mod:`credentials.expected`."""

from __future__ import annotations

from collections.abc import Iterable

from fasthep_smk import sites
from fasthep_smk.plan.rules import Rule
from fasthep_smk.run.duration import Load
from fasthep_smk.translate.profile import Placement
from fasthep_smk.translate.snakefile import lengthened

__all__ = ["loads_of"]


def loads_of(
    rules: Iterable[Rule],
    placement: Placement,
    *,
    valid: frozenset[str] = frozenset(),
    at_a_time: int | None = None,
) -> dict[str, Load]:
    """Return the loads of rules. ``valid`` are the folders of jobs that are done.

    ``at_a_time`` is what ``--jobs`` says: cores on one machine, jobs on a cluster.
    """
    rules = list(rules)
    makers = {job.folder: rule.name for rule in rules for job in rule.jobs.values()}
    return {
        rule.name: Load(
            jobs=_to_do(rule, valid),
            walltime=_walltime(rule, placement),
            slots=_slots(rule, placement, at_a_time),
            after=frozenset(
                makers[read.folder]
                for job in rule.jobs.values()
                for read in job.reads
                if read.folder in makers
            )
            - {rule.name},
        )
        for rule in rules
    }


def _to_do(rule: Rule, valid: frozenset[str]) -> int:
    jobs = [{key} for key in rule.jobs] if not rule.bundles else []
    jobs += [set(bundle.jobs) for bundle in rule.bundles.values()]
    return sum(any(rule.jobs[key].folder not in valid for key in keys) for keys in jobs)


def _walltime(rule: Rule, placement: Placement) -> float | None:
    return lengthened(rule, placement.attempts[rule.name], placement.longest)[0].request.walltime


def _slots(rule: Rule, placement: Placement, at_a_time: int | None) -> int | None:
    """Return how many jobs of a rule run at a time, if anything limits that."""
    first = placement.attempts[rule.name][0]
    known = [placement.workers.get(first.pool)]
    here = sites.system(placement.site.system).machine(placement.site)
    if here is None:
        known.append(at_a_time)
    else:
        cores = min(one for one in (here.cpus, at_a_time) if one is not None)
        known.append(max(1, cores // max(first.request.cpus, 1)))
    return min((one for one in known if one is not None), default=None)
