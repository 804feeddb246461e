"""What a workflow would become: its rules with pool and requests, its pools, its files."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping
from typing import TypedDict

from tabulate import tabulate

from fasthep_smk import sites
from fasthep_smk.cli.steps import placed
from fasthep_smk.config.credentials import Requirement, RequirementData
from fasthep_smk.config.requests import GROWS_TO, Attempt, ResourceRequest
from fasthep_smk.credentials.credential import NAMES
from fasthep_smk.flow.records import SampleFacts
from fasthep_smk.plan.rules import Rule
from fasthep_smk.run.fork_server import why_cold
from fasthep_smk.storage.job_settings import at_place
from fasthep_smk.storage.missing_report import said_of_sample
from fasthep_smk.translate.profile import may_spread
from fasthep_smk.translate.translation import Placed

_AMOUNTS = ("cpus", "memory", "disk", "gpus", "walltime")


def do_explain(options: argparse.Namespace) -> int:
    """Print what a workflow would become."""
    with placed(options) as translated:
        if options.json:
            print(json.dumps(as_data(translated), indent=1))
        else:
            print(as_text(translated), end="")
    return 0


class _Amounts(TypedDict):
    """What a job asks for, or a worker has: bytes and seconds."""

    cpus: int
    memory: int | None
    disk: int | None
    gpus: int
    walltime: int | None


class _Attempt(_Amounts):
    pool: str
    resources: dict[str, object]


class _Rule(TypedDict):
    """A rule: what runs in it, where, and why there; ``origins`` is who says each setting.

    ``by_dataset`` are the attempts of jobs that ask for something else: of a dataset, or of one of
    its partitions, ``dataset/part``.
    """

    rule: str
    scope: str
    stages: list[str]
    jobs: int
    bundles: int | None
    bundled: str | None
    why: str
    retries: int
    fallback_after: int | None
    attempts: list[_Attempt]
    by_dataset: dict[str, list[_Attempt]]
    origins: dict[str, str]


class _Pool(_Amounts):
    """A pool, and the jobs that it gets at their first attempt."""

    pool: str
    use: str | None
    workers: int | None
    retries: int | None
    options: dict[str, dict[str, object]]
    jobs: int
    rounds: int | None
    origins: dict[str, str]


class _File(TypedDict):
    """A file between rules; without a list of ``columns`` it has all of them."""

    rule: str
    file: str
    columns: list[str] | None
    readers: list[str]


class _Site(TypedDict):
    """Where jobs run; ``unsaid``: what they get of an amount that a pool does not say."""

    system: str
    why: str
    profile: str | None
    unsaid: dict[str, str]


class _Pilots(_Amounts):
    """Batch jobs that stay, for one pool: how many at most, and of how many jobs at a time."""

    pool: str
    most: int
    tasks: int


class Explanation(TypedDict):
    """All that is explained, as ``--json`` prints it."""

    site: _Site
    cold: dict[str, str]
    credentials: list[RequirementData]
    sample: SampleFacts | None
    rules: list[_Rule]
    pools: list[_Pool]
    pilots: list[_Pilots]
    files: list[_File]
    warnings: list[str]


def as_data(placed: Placed) -> Explanation:
    """Return the explanation as plain data: bytes, seconds, lists and names."""
    site = placed.placement.site
    attempts = [attempt for of_rule in placed.placement.attempts.values() for attempt in of_rule]
    return {
        "site": {
            "system": site.system,
            "why": site.why,
            "profile": str(site.folder) if site.folder else None,
            "unsaid": dict(sites.unsaid(site.system, attempts)),
        },
        "cold": _cold(placed),
        "credentials": [requirement.as_data() for requirement in placed.placement.credentials],
        "sample": placed.sample.as_data() if placed.sample else None,
        "rules": [_rule(rule, placed) for rule in placed.rules],
        "pools": _pools(placed),
        "pilots": _pilots(placed),
        "files": _files(placed),
        "warnings": placed.warnings,
    }


def as_text(placed: Placed) -> str:
    """Return the explanation as tables."""
    data = as_data(placed)
    shown = {rule.name: placed.placement.attempts[rule.name] for rule in placed.rules}
    system = sites.system(placed.placement.site.system)
    sections = [
        [
            f"Site: {data['site']['system']} ({data['site']['why']})",
            *_starts(data["cold"]),
            *(f"Required: {_credential(required)}" for required in placed.placement.credentials),
            *([f"Sample: {said_of_sample(data['sample'])}"] if data["sample"] else []),
        ],
        [
            tabulate(
                [
                    row
                    for rule in data["rules"]
                    for row in (
                        *(_row(rule, *pair, system) for pair in _distinct(shown[rule["rule"]])),
                        *_own_rows(rule, placed),
                    )
                ],
                headers=["rule", "jobs", "pool", *_AMOUNTS, "attempts", "on this site"],
                colalign=("left", "right", "left", *["right"] * 5, "left", "left"),
                disable_numparse=True,
            ),
            *(f"no {name} requested (-): {text}" for name, text in data["site"]["unsaid"].items()),
        ],
        ["Pilots, batch jobs that run one job after another:", *map(_pilot, data["pilots"])]
        if data["pilots"]
        else [],
        [
            "What runs in each rule, and why there:",
            *(
                _why(entry, rule, placed)
                for entry, rule in zip(data["rules"], placed.rules, strict=True)
            ),
        ],
        [
            tabulate(
                [_pool_row(pool, placed) for pool in data["pools"]],
                headers=["pool", "workers", *_AMOUNTS, "jobs", "rounds"],
                colalign=("left", *["right"] * 8),
                disable_numparse=True,
            )
        ],
        ["Where each value comes from:", *map(_origins, data["pools"])],
        ["Files between the rules:", *map(_file_line, data["files"])] if data["files"] else [],
        [f"warning: {text}" for text in data["warnings"]],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


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
    return ["Jobs are forked from a fork server, which has imported what they need", *rest]


def _amounts(request: ResourceRequest) -> _Amounts:
    return {
        "cpus": request.cpus,
        "memory": request.memory,
        "disk": request.disk,
        "gpus": request.gpus,
        "walltime": request.walltime,
    }


def _rule(rule: Rule, placed: Placed) -> _Rule:
    common = placed.placement.attempts[rule.name]
    system = sites.system(placed.placement.site.system)
    return {
        "rule": rule.name,
        "scope": rule.scope,
        "stages": list(rule.stages),
        "jobs": len(rule.jobs),
        "bundles": len(rule.bundles) or None,
        "bundled": rule.bundled or None,
        "why": rule.route.why,
        "retries": rule.route.retries,
        "fallback_after": placed.placement.fallback_after.get(rule.name),
        "attempts": [_attempt(attempt, system) for attempt in common],
        "by_dataset": {
            place: [_attempt(attempt, system) for attempt in attempts]
            for place, attempts in placed.placement.by_dataset.get(rule.name, {}).items()
        },
        "origins": dict(rule.route.origins),
    }


def _attempt(attempt: Attempt, system: sites.System) -> _Attempt:
    return {
        "pool": attempt.pool,
        **_amounts(attempt.request),
        "resources": {**sites.common_resources(attempt), **system.resources(attempt)},
    }


def _pools(placed: Placed) -> list[_Pool]:
    jobs: dict[str, int] = {}
    for rule in placed.rules:
        first = placed.placement.attempts[rule.name][0].pool
        jobs[first] = jobs.get(first, 0) + len(rule.jobs)
    pools: list[_Pool] = []
    for pool in placed.execution.router.pools.by_name.values():
        settings = pool.settings
        count = jobs.get(pool.name, 0)
        pools.append(
            {
                "pool": pool.name,
                "use": pool.profile,
                "workers": settings.workers,
                **_amounts(settings.request),
                "retries": settings.retries,
                "options": {system: dict(content) for system, content in settings.options.items()},
                "jobs": count,
                "rounds": math.ceil(count / settings.workers) if settings.workers else None,
                "origins": dict(settings.origins),
            }
        )
    return pools


def _pilots(placed: Placed) -> list[_Pilots]:
    crews = placed.placement.crews
    return [
        {
            "pool": crew.attempt.pool,
            "most": crew.most,
            "tasks": crew.tasks,
            **_amounts(crew.attempt.request),
        }
        for crew in (crews.by_name.values() if crews else ())
    ]


def _pilot(pilots: _Pilots) -> str:
    request = ResourceRequest(
        pilots["cpus"], pilots["memory"], pilots["disk"], pilots["gpus"], pilots["walltime"]
    )
    asked = ", ".join(
        f"{name} {request.shown(name)}"
        for name in _AMOUNTS
        if request.shown(name) not in ("-", "0")
    )
    return (
        f"    pool {pilots['pool']}: up to {pilots['most']}, each for {pilots['tasks']} "
        f"job{'' if pilots['tasks'] == 1 else 's'} at a time: {asked}"
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
            entries.append(
                {
                    "rule": rule.name,
                    "file": name,
                    # What a later stage makes and reads is not in the file.
                    "columns": None
                    if live is None
                    else [name for name in live if name not in later],
                    "readers": list(readers.get((rule.name, name), {})),
                }
            )
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


def _own_rows(rule: _Rule, placed: Placed) -> Iterator[list[str]]:
    """Yield the rows of a rule's jobs that ask for amounts of their own, by dataset and file."""
    system = sites.system(placed.placement.site.system)
    by_place = placed.placement.by_dataset.get(rule["rule"], {})
    planned = next(candidate for candidate in placed.rules if candidate.name == rule["rule"])
    each = [
        (str(job.dataset), attempts)
        for job in planned.jobs.values()
        if (attempts := at_place(by_place, job.wildcards)) is not None
    ]
    shown: list[tuple[str, tuple[Attempt, ...]]] = []
    for pair in each:
        if pair not in shown:
            shown.append(pair)
            dataset, attempts = pair
            for number, attempt in _distinct(attempts):
                yield _row(rule, number, attempt, system, dataset=dataset, jobs=each.count(pair))


def _row(
    rule: _Rule,
    number: str,
    attempt: Attempt,
    system: sites.System,
    *,
    dataset: str = "",
    jobs: int = 0,
) -> list[str]:
    first = number.split()[0] == "1"
    common = sites.common_resources(attempt)
    resources = {**common, **system.resources(attempt)}
    own = {key: value for key, value in resources.items() if common.get(key) != value}
    return [
        (f"  of these {dataset}" if dataset else rule["rule"]) if first else "",
        str(jobs or rule["jobs"]) if first else "",
        attempt.pool,
        *(attempt.request.shown(name) for name in _AMOUNTS),
        number,
        ", ".join(f"{key}={value}" for key, value in own.items()) or "-",
    ]


def _credential(required: Requirement) -> str:
    voms = f" of {', '.join(required.voms)}" if required.voms else ""
    issuer = f" from {required.issuer}" if required.issuer else ""
    return f"{NAMES[required.kind]}{voms}{issuer} ({required.file}: {required.key})"


def _why(rule: _Rule, planned: Rule, placed: Placed) -> str:
    """Return what runs in a rule, why there, and who says what its jobs ask for but their pool."""
    stages = ", ".join(rule["stages"]) or "end of the run"
    queue = planned.route.fallback_after and not rule["fallback_after"]
    here = "; this machine has no queue: fallback_after has no effect" if queue else ""
    bundled = f"; in {rule['bundles']} bundles, {rule['bundled']}" if rule["bundles"] else ""
    placement, pools = placed.placement, placed.execution.router.pools.by_name
    own = placement.by_dataset.get(planned.name, {})
    places = {
        place: None
        for attempts in (placement.attempts[planned.name], *own.values())
        for attempt in attempts
        for leaf, place in attempt.origins.items()
        if leaf != GROWS_TO and pools[attempt.pool].settings.origins.get(leaf) != place
    }
    sources = "".join(f"; {place}" for place in places)
    return f"    {rule['rule']}: {stages}: {rule['why']}{here}{bundled}{sources}"


def _pool_row(pool: _Pool, placed: Placed) -> list[str]:
    request = placed.execution.router.pools.by_name[pool["pool"]].settings.request
    return [
        pool["pool"],
        str(pool["workers"] or "any"),
        *(request.shown(name) for name in _AMOUNTS),
        str(pool["jobs"]),
        str(pool["rounds"] if pool["rounds"] is not None else "-"),
    ]


def _origins(pool: _Pool) -> str:
    if not pool["origins"]:
        return f"    {pool['pool']}: no settings"
    lines = [f"    {pool['pool']}: {leaf}: {origin}" for leaf, origin in pool["origins"].items()]
    return "\n".join(lines)


def _file_line(item: _File) -> str:
    columns = item["columns"]
    carried = "all columns" if columns is None else ", ".join(columns) or "no columns"
    return f"    {item['rule']} -> {', '.join(item['readers'])}: {item['file']}: {carried}"
