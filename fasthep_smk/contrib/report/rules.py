"""Each rule of a build folder: its stages, its jobs, what it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fasthep_smk.contrib.report.facts import Facts, JobFacts, by_state, grouped
from fasthep_smk.storage import layout
from fasthep_smk.storage.jobs import State

#: How many jobs are told of all rules together, and at least of each.
_JOBS, _LEAST_JOBS = 500, 5
#: Which jobs are told first.
_ORDER = ("failed", "running", "done", "to do")


@dataclass(frozen=True, kw_only=True)
class RuleJob:
    """A job of a rule; what is not known of it yet is ``None`` or empty. Its log is a path."""

    key: str
    state: State
    host: str
    batch_job: str
    started: float | None
    seconds: float | None
    memory: int | None
    retries: int
    log: str


@dataclass(frozen=True)
class RuleFacts:
    """A rule: its pools, how many jobs are in each state, its stages, and some of its jobs.

    ``reads`` are the rules whose products its jobs read. ``jobs`` are those that failed or run,
    then those that took longest.
    """

    rule: str
    pools: Sequence[str]
    states: Mapping[State, int]
    reads: Sequence[str]
    stages: Sequence[str]
    jobs: Sequence[RuleJob]


def of_each(facts: Facts) -> list[RuleFacts]:
    """Return what is known of each rule of a build folder."""
    rules = grouped(facts.jobs, lambda job: job.rule)
    maker = {job.folder: job.rule for job in facts.jobs}
    most = max(_LEAST_JOBS, _JOBS // max(1, len(rules)))
    rows = []
    for rule, jobs in rules.items():
        reads = dict.fromkeys(maker[read] for job in jobs for read in job.reads if read in maker)
        jobs.sort(key=lambda job: (_ORDER.index(job.state), -job.seconds))
        rows.append(
            RuleFacts(
                rule=rule,
                pools=sorted({job.pool for job in jobs}),
                states=by_state(jobs),
                reads=[name for name in reads if name != rule],
                stages=[name.removeprefix("stage.") for name in facts.nodes.get(rule, ())],
                jobs=[_job(facts.build, job) for job in jobs[:most]],
            )
        )
    return rows


def _job(build: Path, job: JobFacts) -> RuleJob:
    ran = job.state in ("done", "running")
    log = layout.log(job.rule, job.key.split("/") if job.key else ())
    return RuleJob(
        key=job.key,
        state=job.state,
        host=job.host,
        batch_job=job.batch_job,
        started=job.started if ran else None,
        seconds=job.seconds if ran else None,
        memory=job.memory if job.state == "done" else None,
        retries=job.retries,
        log=log if (build / log).exists() else "",
    )
