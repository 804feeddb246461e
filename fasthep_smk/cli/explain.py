"""What a workflow would become: its rules with pool and requests, and its pools."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

from tabulate import tabulate

from fasthep_smk import sites
from fasthep_smk.cli.steps import placed
from fasthep_smk.config.credentials import Requirement
from fasthep_smk.config.requests import AMOUNTS, GROWS_TO, Attempt
from fasthep_smk.credentials.credential import NAMES
from fasthep_smk.plan.rules import Rule
from fasthep_smk.run.fork_server import why_cold
from fasthep_smk.storage.job_settings import at_place
from fasthep_smk.storage.missing_report import said_of_sample
from fasthep_smk.translate.profile import may_spread
from fasthep_smk.translate.translation import Placed

if TYPE_CHECKING:
    from fasthep_smk.config.pools import Pool
    from fasthep_smk.storage.pilots import Crew


def do_explain(options: argparse.Namespace) -> int:
    """Print what a workflow would become."""
    with placed(options) as translated:
        if options.json:
            print(json.dumps(as_data(translated), indent=1))
        else:
            print(as_text(translated), end="")
    return 0


def as_data(placed: Placed) -> dict[str, object]:
    """Return the explanation as plain data: bytes, seconds, lists and names.

    ``unsaid`` is what jobs get of an amount that a pool does not say, ``cold`` which rules' jobs
    start in a Python of their own. ``origins`` says where each setting comes from; ``by_dataset``
    are the attempts of jobs of a dataset, or of its partition ``dataset/part``, that ask for
    something else. The ``jobs`` of a pool are those that it gets at their first attempt.
    """
    site = placed.placement.site
    return {
        "site": {
            "system": site.system,
            "why": site.why,
            "profile": str(site.folder) if site.folder else None,
            "unsaid": _unsaid(placed),
        },
        "cold": _cold(placed),
        "credentials": [requirement.as_data() for requirement in placed.placement.credentials],
        "sample": placed.sample.as_data() if placed.sample else None,
        "rules": [_rule(rule, placed) for rule in placed.rules],
        "pools": [_pool(pool, count) for pool, count in _pools(placed)],
        "warnings": placed.warnings,
    }


def as_text(placed: Placed) -> str:
    """Return the explanation as tables."""
    placement = placed.placement
    rules = [row for rule in placed.rules for row in _rows(rule, placed)]
    pools = [
        [
            pool.name,
            str(pool.settings.workers or "any"),
            *(pool.settings.request.shown(name) for name in AMOUNTS),
            str(jobs),
        ]
        for pool, jobs in _pools(placed)
    ]
    sections = [
        [
            f"Site: {placement.site.system} ({placement.site.why})",
            *_starts(placed),
            *(f"Required: {_credential(required)}" for required in placement.credentials),
            *([f"Sample: {said_of_sample(placed.sample.as_data())}"] if placed.sample else []),
        ],
        [
            tabulate(
                rules,
                headers=["rule", "jobs", "pool", *AMOUNTS, "attempts", "on this site"],
                colalign=("left", "right", "left", *["right"] * 5, "left", "left"),
                disable_numparse=True,
            ),
            *(f"no {name} requested (-): {text}" for name, text in _unsaid(placed).items()),
        ],
        ["Pilots (batch jobs that run one job after another):", *map(_pilot, crews)]
        if (crews := placement.crews.by_name.values() if placement.crews else ())
        else [],
        [
            "The stages of each rule, and why the rule uses its pool:",
            *(_why(rule, placed) for rule in placed.rules),
        ],
        [
            tabulate(
                pools,
                headers=["pool", "workers", *AMOUNTS, "jobs"],
                colalign=("left", *["right"] * 7),
                disable_numparse=True,
            )
        ],
        [
            "Where each setting comes from:",
            *(
                f"    {pool.name}: {text}"
                for pool, _ in _pools(placed)
                for text in [": ".join(pair) for pair in pool.settings.origins.items()]
                or ["no settings"]
            ),
        ],
        [f"warning: {text}" for text in placed.warnings],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _unsaid(placed: Placed) -> dict[str, str]:
    attempts = [attempt for of_rule in placed.placement.attempts.values() for attempt in of_rule]
    return dict(sites.unsaid(placed.placement.site.system, attempts))


def _cold(placed: Placed) -> dict[str, str]:
    """Return which rules' jobs start in a Python of their own, and why; ``*`` for all."""
    if (why := why_cold(placed.placement.site.system)) is not None:
        return {"*": why}
    return {
        rule.name: f"each uses {cpus} cpus"
        for rule in placed.rules
        if (cpus := placed.placement.attempts[rule.name][0].request.cpus) > 1
        and not may_spread(rule)
    }


def _starts(placed: Placed) -> list[str]:
    cold = _cold(placed)
    if "*" in cold:
        return [f"Each job starts its own Python: {cold['*']}"]
    rest = [
        f"    but each job of {rule} starts its own Python: {why}" for rule, why in cold.items()
    ]
    return [
        "Jobs are forked from a fork server, which has already imported the modules that they need",
        *rest,
    ]


def _rule(rule: Rule, placed: Placed) -> dict[str, object]:
    placement = placed.placement
    system = sites.system(placement.site.system)
    return {
        "rule": rule.name,
        "scope": rule.scope,
        "stages": list(rule.stages),
        "jobs": len(rule.jobs),
        "bundles": len(rule.bundles) or None,
        "bundled": rule.bundled or None,
        "why": rule.route.why,
        "retries": rule.route.retries,
        "fallback_after": placement.fallback_after.get(rule.name),
        "attempts": [_attempt(attempt, system) for attempt in placement.attempts[rule.name]],
        "by_dataset": {
            place: [_attempt(attempt, system) for attempt in attempts]
            for place, attempts in placement.by_dataset.get(rule.name, {}).items()
        },
        "origins": dict(rule.route.origins),
    }


def _attempt(attempt: Attempt, system: sites.System) -> dict[str, object]:
    return {
        "pool": attempt.pool,
        **asdict(attempt.request),
        "resources": {**sites.common_resources(attempt), **system.resources(attempt)},
    }


def _pools(placed: Placed) -> list[tuple[Pool, int]]:
    """Return the pools, each with how many jobs it gets at their first attempt."""
    jobs = Counter[str]()
    for rule in placed.rules:
        jobs[placed.placement.attempts[rule.name][0].pool] += len(rule.jobs)
    return [(pool, jobs[pool.name]) for pool in placed.execution.router.pools.by_name.values()]


def _pool(pool: Pool, jobs: int) -> dict[str, object]:
    settings = pool.settings
    return {
        "pool": pool.name,
        "use": pool.profile,
        "workers": settings.workers,
        **asdict(settings.request),
        "retries": settings.retries,
        "options": {system: dict(content) for system, content in settings.options.items()},
        "jobs": jobs,
        "origins": dict(settings.origins),
    }


def _pilot(crew: Crew) -> str:
    amounts = {name: crew.attempt.request.shown(name) for name in AMOUNTS}
    asked = ", ".join(f"{name} {text}" for name, text in amounts.items() if text not in ("-", "0"))
    return (
        f"    pool {crew.attempt.pool}: up to {crew.most} pilots; each runs {crew.tasks} "
        f"job{'' if crew.tasks == 1 else 's'} at a time and requests {asked}"
    )


def _rows(rule: Rule, placed: Placed) -> Iterator[list[str]]:
    """Yield the rows of a rule's jobs: of all, and of those with amounts of their own by dataset.

    Each different attempt has a row; the first one names what the jobs are.
    """
    system = sites.system(placed.placement.site.system)
    by_place = placed.placement.by_dataset.get(rule.name, {})
    each = [
        (str(job.dataset), own)
        for wildcards, jobs in rule.snakemake_jobs()
        if (own := at_place(by_place, wildcards)) is not None
        for job in jobs
    ]
    kinds: list[tuple[str, tuple[Attempt, ...]]] = []
    for pair in each:
        if pair not in kinds:
            kinds.append(pair)
    shown = [(rule.name, len(rule.jobs), placed.placement.attempts[rule.name])]
    shown += [(f"  of these {dataset}", each.count((dataset, own)), own) for dataset, own in kinds]
    for name, number, attempts in shown:
        last = 0
        for attempt, same in groupby(attempts):
            first, last = last + 1, last + len(list(same))
            common = sites.common_resources(attempt)
            resources = {**common, **system.resources(attempt)}
            here = [
                f"{key}={value}" for key, value in resources.items() if common.get(key) != value
            ]
            yield [
                name if first == 1 else "",
                str(number) if first == 1 else "",
                attempt.pool,
                *(attempt.request.shown(amount) for amount in AMOUNTS),
                str(first) if first == last else f"{first} to {last}",
                ", ".join(here) or "-",
            ]


def _credential(required: Requirement) -> str:
    voms = f" of {', '.join(required.voms)}" if required.voms else ""
    issuer = f" from {required.issuer}" if required.issuer else ""
    return f"{NAMES[required.kind]}{voms}{issuer} ({required.file}: {required.key})"


def _why(rule: Rule, placed: Placed) -> str:
    """Return what runs in a rule, why there, and who says what its jobs ask for but their pool."""
    placement, pools = placed.placement, placed.execution.router.pools.by_name
    stages = ", ".join(rule.stages) or "end of the run"
    bundled = f"; in {len(rule.bundles)} bundles, {rule.bundled}" if rule.bundles else ""
    own = placement.by_dataset.get(rule.name, {})
    places = {
        place: None
        for attempts in (placement.attempts[rule.name], *own.values())
        for attempt in attempts
        for leaf, place in attempt.origins.items()
        if leaf != GROWS_TO and pools[attempt.pool].settings.origins.get(leaf) != place
    }
    sources = "".join(f"; {place}" for place in places)
    return f"    {rule.name}: {stages}: {rule.route.why}{bundled}{sources}"
