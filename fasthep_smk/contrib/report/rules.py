"""Each rule of a build folder: its stages with their parameters, its jobs, what it reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fasthep_smk.contrib.report.facts import Facts, JobFacts, by_state, grouped
from fasthep_smk.storage import layout
from fasthep_smk.storage.jobs import State
from fasthep_smk.util import files
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.masking import masked

__all__ = ["RuleFacts", "RuleJob", "StageText", "of_each"]

#: How many jobs are told of all rules together, and at least of each; lines of parameters.
_JOBS, _LEAST_JOBS, _LINES = 1000, 5, 60
#: The one in C is five times as fast.
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
#: Which jobs are told first.
_ORDER = ("failed", "running", "done", "to do")


@dataclass(frozen=True)
class StageText:
    """A stage of a rule: its op, and its parameters as lines of YAML."""

    stage: str
    op: str
    params: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class RuleJob:
    """A job of a rule; what is not known of it yet is ``None`` or empty. Its log is a path."""

    key: str
    state: State
    pool: str
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
    stages: Sequence[StageText]
    jobs: Sequence[RuleJob]


def of_each(facts: Facts) -> list[RuleFacts]:
    """Return what is known of each rule of a build folder."""
    rules = grouped(facts.jobs, lambda job: job.rule)
    maker = {job.folder: job.rule for job in facts.jobs}
    most = max(_LEAST_JOBS, _JOBS // max(1, len(rules)))
    plans = {plan for of in facts.nodes.values() for plan in of.values()}
    nodes = {plan: _nodes(facts.build, plan) for plan in plans}
    found = []
    for rule, jobs in rules.items():
        reads = dict.fromkeys(maker[read] for job in jobs for read in job.reads if read in maker)
        jobs.sort(key=lambda job: (_ORDER.index(job.state), -job.seconds))
        stages = facts.nodes.get(rule, {})
        # In the order of their plan; those that it lacks come last.
        planned = {
            name: node
            for plan in dict.fromkeys(stages.values())
            for name, node in nodes[plan].items()
            if stages.get(name) == plan
        }
        found.append(
            RuleFacts(
                rule=rule,
                pools=sorted({job.pool for job in jobs}),
                states=by_state(jobs),
                reads=[name for name in reads if name != rule],
                stages=[_stage(name, planned.get(name, {})) for name in {**planned, **stages}],
                jobs=[_job(facts.build, job) for job in jobs[:most]],
            )
        )
    return found


def _nodes(build: Path, plan: str) -> dict[str, JsonObject]:
    """Return the nodes of a plan by their ids; none if it cannot be read."""
    try:
        told = json.loads(files.read_plain(build / plan))["nodes"]
        return {str(node["id"]): node for node in told}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _stage(name: str, node: JsonObject) -> StageText:
    try:
        params = node.get("params") or {}
        text = yaml.dump(params, Dumper=_DUMPER, sort_keys=False, allow_unicode=True)
    except (yaml.YAMLError, RecursionError):
        text = ""
    lines = masked(text).splitlines() if text.strip() != "{}" else []
    more = len(lines) - _LINES
    return StageText(
        stage=name.removeprefix("stage."),
        op=str(node.get("impl") or ""),
        params=[*lines[:_LINES], *([f"... and {more} more lines"] if more > 0 else [])],
    )


def _job(build: Path, job: JobFacts) -> RuleJob:
    ran = job.state in ("done", "running")
    log = layout.log(job.rule, job.key.split("/") if job.key else ())
    return RuleJob(
        key=job.key,
        state=job.state,
        pool=job.pool,
        host=job.host,
        batch_job=job.batch_job,
        started=job.started if ran else None,
        seconds=job.seconds if ran else None,
        memory=job.memory if job.state == "done" else None,
        retries=job.retries,
        log=log if (build / log).exists() else "",
    )
