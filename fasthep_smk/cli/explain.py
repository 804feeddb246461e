"""What a workflow would become: its rules with pool and requests, its pools, its files."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from tabulate import tabulate

from fasthep_smk import sites
from fasthep_smk.cli.steps import placed
from fasthep_smk.config.credentials import Requirement
from fasthep_smk.config.requests import GROWS_TO, Attempt
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

_AMOUNTS = ("cpus", "memory", "disk", "gpus", "walltime")


def do_explain(options: argparse.Namespace) -> int:
    """Print what a workflow would become."""
    with placed(options) as translated:
        if options.json:
            print(json.dumps(as_data(translated), indent=1))
        else:
            print(as_text(translated), end="")
    return 0


@dataclass(frozen=True)
class _File:
    """A file between rules; without a list of ``columns`` it has all of them."""

    rule: str
    file: str
    columns: list[str] | None
    readers: list[str]


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
        "pilots": [
            {
                "pool": crew.attempt.pool,
                "most": crew.most,
                "tasks": crew.tasks,
                **asdict(crew.attempt.request),
            }
            for crew in _crews(placed)
        ],
        "files": [asdict(file) for file in _files(placed)],
        "warnings": placed.warnings,
    }


def as_text(placed: Placed) -> str:
    """Return the explanation as tables."""
    placement = placed.placement
    system = sites.system(placement.site.system)
    sections = [
        [
            f"Site: {placement.site.system} ({placement.site.why})",
            *_starts(_cold(placed)),
            *(f"Required: {_credential(required)}" for required in placement.credentials),
            *([f"Sample: {said_of_sample(placed.sample.as_data())}"] if placed.sample else []),
        ],
        [
            tabulate(
                [
                    row
                    for rule in placed.rules
                    for row in (
                        *_rows(rule.name, len(rule.jobs), placement.attempts[rule.name], system),
                        *_own_rows(rule, placed),
                    )
                ],
                headers=["rule", "jobs", "pool", *_AMOUNTS, "attempts", "on this site"],
                colalign=("left", "right", "left", *["right"] * 5, "left", "left"),
                disable_numparse=True,
            ),
            *(f"no {name} requested (-): {text}" for name, text in _unsaid(placed).items()),
        ],
        ["Pilots (batch jobs that run one job after another):", *map(_pilot, crews)]
        if (crews := _crews(placed))
        else [],
        [
            "The stages of each rule, and why the rule uses its pool:",
            *(_why(rule, placed) for rule in placed.rules),
        ],
        [
            tabulate(
                [_pool_row(pool, count) for pool, count in _pools(placed)],
                headers=["pool", "workers", *_AMOUNTS, "jobs", "rounds"],
                colalign=("left", *["right"] * 8),
                disable_numparse=True,
            )
        ],
        ["Where each setting comes from:", *(_origins(pool) for pool, _ in _pools(placed))],
        ["Files that one rule writes for others, with their columns:", *map(_file_line, files)]
        if (files := _files(placed))
        else [],
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
    cpus = {
        rule.name: placed.placement.attempts[rule.name][0].request.cpus for rule in placed.rules
    }
    return {
        rule.name: f"each uses {cpus[rule.name]} cpus"
        for rule in placed.rules
        if cpus[rule.name] > 1 and not may_spread(rule)
    }


def _starts(cold: Mapping[str, str]) -> list[str]:
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
        "rounds": math.ceil(jobs / settings.workers) if settings.workers else None,
        "origins": dict(settings.origins),
    }


def _pool_row(pool: Pool, jobs: int) -> list[str]:
    workers, request = pool.settings.workers, pool.settings.request
    return [
        pool.name,
        str(workers or "any"),
        *(request.shown(name) for name in _AMOUNTS),
        str(jobs),
        str(math.ceil(jobs / workers)) if workers else "-",
    ]


def _crews(placed: Placed) -> list[Crew]:
    crews = placed.placement.crews
    return list(crews.by_name.values()) if crews else []


def _pilot(crew: Crew) -> str:
    amounts = {name: crew.attempt.request.shown(name) for name in _AMOUNTS}
    asked = ", ".join(f"{name} {text}" for name, text in amounts.items() if text not in ("-", "0"))
    return (
        f"    pool {crew.attempt.pool}: up to {crew.most} pilots, each for {crew.tasks} "
        f"job{'' if crew.tasks == 1 else 's'} at a time: {asked}"
    )


def _files(placed: Placed) -> list[_File]:
    rules = placed.rules
    made_by = _made_until(placed)
    readers: dict[tuple[str, str], dict[str, None]] = {}
    owner = {job.folder: rule for rule in rules for job in rule.jobs.values()}
    for rule in rules:
        for job in rule.jobs.values():
            for read in job.reads:
                for key in read.keys:
                    name = owner[read.folder].streams.get(key)
                    if name:
                        readers.setdefault((owner[read.folder].name, name), {})[rule.name] = None
    entries: list[_File] = []
    for rule in rules:
        for key, name in rule.streams.items():
            live = rule.live.get(key)
            later = made_by["*"] - made_by[rule.name]
            # What a later stage makes and reads is not in the file.
            columns = None if live is None else [name for name in live if name not in later]
            entries.append(_File(rule.name, name, columns, [*readers.get((rule.name, name), ())]))
    return entries


def _made_until(placed: Placed) -> dict[str, set[str]]:
    """Return the columns that stages make, up to and with each rule; ``*`` for all rules."""
    makes = {
        node.id: node.makes for item in placed.variations for node in item.graph.nodes.values()
    }
    columns: set[str] = set()
    by_rule: dict[str, set[str]] = {}
    for rule in placed.rules:
        for job in rule.jobs.values():
            columns.update(name for node in job.nodes for name in makes.get(node, ()))
        by_rule[rule.name] = set(columns)
    return {**by_rule, "*": columns}


def _distinct(attempts: tuple[Attempt, ...]) -> list[tuple[str, Attempt]]:
    """Return the different attempts of a rule, each with the numbers it stands for."""
    groups: list[tuple[list[int], Attempt]] = []
    for number, attempt in enumerate(attempts, start=1):
        if groups and groups[-1][1] == attempt:
            groups[-1][0].append(number)
        else:
            groups.append(([number], attempt))
    return [
        (str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}", attempt)
        for numbers, attempt in groups
    ]


def _own_rows(rule: Rule, placed: Placed) -> Iterator[list[str]]:
    """Yield the rows of a rule's jobs that ask for amounts of their own, by dataset and file."""
    system = sites.system(placed.placement.site.system)
    by_place = placed.placement.by_dataset.get(rule.name, {})
    each = [
        (str(job.dataset), attempts)
        for wildcards, jobs in rule.snakemake_jobs()
        if (attempts := at_place(by_place, wildcards)) is not None
        for job in jobs
    ]
    shown: list[tuple[str, tuple[Attempt, ...]]] = []
    for pair in each:
        if pair not in shown:
            shown.append(pair)
            dataset, attempts = pair
            yield from _rows(f"  of these {dataset}", each.count(pair), attempts, system)


def _rows(
    name: str, jobs: int, attempts: tuple[Attempt, ...], system: sites.System
) -> Iterator[list[str]]:
    """Yield a row for each different attempt; the first one names what the jobs are."""
    for number, attempt in _distinct(attempts):
        common = sites.common_resources(attempt)
        resources = {**common, **system.resources(attempt)}
        own = {key: value for key, value in resources.items() if common.get(key) != value}
        yield [
            name,
            str(jobs or ""),
            attempt.pool,
            *(attempt.request.shown(amount) for amount in _AMOUNTS),
            number,
            ", ".join(f"{key}={value}" for key, value in own.items()) or "-",
        ]
        name, jobs = "", 0


def _credential(required: Requirement) -> str:
    voms = f" of {', '.join(required.voms)}" if required.voms else ""
    issuer = f" from {required.issuer}" if required.issuer else ""
    return f"{NAMES[required.kind]}{voms}{issuer} ({required.file}: {required.key})"


def _why(rule: Rule, placed: Placed) -> str:
    """Return what runs in a rule, why there, and who says what its jobs ask for but their pool."""
    placement, pools = placed.placement, placed.execution.router.pools.by_name
    stages = ", ".join(rule.stages) or "end of the run"
    queue = rule.route.fallback_after and not placement.fallback_after.get(rule.name)
    here = "; fallback_after has no effect: this machine has no queue" if queue else ""
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
    return f"    {rule.name}: {stages}: {rule.route.why}{here}{bundled}{sources}"


def _origins(pool: Pool) -> str:
    origins = [f"{leaf}: {origin}" for leaf, origin in pool.settings.origins.items()]
    return "\n".join(f"    {pool.name}: {text}" for text in origins or ["no settings"])


def _file_line(item: _File) -> str:
    columns = "all columns" if item.columns is None else ", ".join(item.columns) or "no columns"
    return f"    {item.rule} -> {', '.join(item.readers)}: {item.file}: {columns}"
