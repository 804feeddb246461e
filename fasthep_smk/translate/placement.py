"""Rules sent to a site: what of their routes it can give, and what it can never run."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from fasthep_smk import sites
from fasthep_smk.config.execution import Execution
from fasthep_smk.config.requests import Attempt, ResourceRequest
from fasthep_smk.config.routing import Router
from fasthep_smk.config.site import Site, as_two_levels
from fasthep_smk.plan.rules import Rule, asked_by
from fasthep_smk.translate.profile import ALL, WRITTEN, Placement, written_amount
from fasthep_smk.util.errors import Finding, not_among
from fasthep_smk.util.units import format_duration
from fasthep_smk.util.yaml_values import as_yaml

if TYPE_CHECKING:
    from fasthep_smk.config.sizes import Size
    from fasthep_smk.plan.amounts import KnownOf
    from fasthep_smk.storage.measured import History

#: What Snakemake quotes wrongly or replaces in a mounted path, and what stands between two of them.
_NOT_BOUND = frozenset("'$\\:,\n")
#: What would not be seen in a message.
_IN_WORDS = {" ": "spaces", "\n": "line ends", "\r": "line ends", "\t": "tabs", "\0": "NUL"}


def place(
    rules: Iterable[Rule],
    execution: Execution,
    *,
    shrink: bool = False,
    sizes: Sequence[Size] = (),
    build: Path | None = None,
) -> tuple[Placement, list[Finding], list[str]]:
    """Return where the rules' jobs go, what is in the way, and what a user should know.

    With ``shrink`` what is larger than the one machine of the site is cut, each cut in a warning.
    Otherwise a job with a fallback that fits goes there at once; any other is refused. ``sizes``
    are amounts that were measured, in place of those of the pools; ``build`` is where earlier jobs
    are, for pools that ask for what these took.
    """
    rules = list(rules)
    site = execution.site
    system = sites.system(site.system)
    here = system.machine(site)
    notes = [*system.notes(), *settle_pilots(rules, execution)]
    said = {rule.name: {ALL: rule.route.attempts} for rule in rules}
    known: Mapping[str, KnownOf] = {}
    history: History = {}
    if here is None or sizes or execution.by_dataset or _is_measured(rules, execution.router):
        from fasthep_smk.translate.sizes import amounts

        sized = amounts(rules, execution, sizes=sizes, here=here, build=build)
        notes += sized.notes
        if sized.findings:
            return Placement(site), sized.findings, notes
        said, known, history = sized.stated, sized.known, sized.history
    findings = [*_unknown_rules(site, [rule.name for rule in rules]), *_of_snakemake()]
    for name, written in as_two_levels(site.settings.get("set-resources") or {}).items():
        if name in said:
            typed = any(word.startswith(f"{name}:") for word in site.typed.get("set-resources", ()))
            where = f"{'--set-resources' if typed else site.why}: {name}"
            as_written = {
                id(one): _as_written(one, written, where, system) for one in said[name].values()
            }
            said[name] = {place: as_written[id(one)] for place, one in said[name].items()}
    stated: dict[str, dict[str, tuple[Attempt, ...]]] = {}
    asked: dict[str, dict[str, tuple[Attempt, ...]]] = {}
    for name, by_place in said.items():
        fitted: dict[int, tuple[Attempt, ...]] = {}  # many places share theirs
        for series in by_place.values():
            if id(series) not in fitted:
                kept = series
                if here is not None:
                    asks = [asked_by((attempt,), known.get(name))[0] for attempt in series]
                    kept, cut = _on_one_machine(series, asks, here, shrink=shrink)
                    notes += cut
                fitted[id(series)] = tuple(contained(attempt, execution) for attempt in kept)
        asks_of = {at: asked_by(series, known.get(name)) for at, series in fitted.items()}
        stated[name] = {at: fitted[id(series)] for at, series in by_place.items()}
        asked[name] = {at: asks_of[id(series)] for at, series in by_place.items()}
    used = [attempt for rule in asked.values() for series in rule.values() for attempt in series]
    last = [series[-1] for rule in asked.values() for series in rule.values()]
    if here is not None:
        findings += sites.too_large(used, here)
    findings += system.problems(used, site)
    for attempt, finding in system.refused(used, site):
        if attempt in last:
            findings.append(finding)
        else:
            wrong = f"{finding.key}: {finding.problem} ({finding.value})"
            notes.append(f"{wrong}: jobs go to their fallback pool")
    has_options = any(attempt.options.get(site.system) for attempt in used)
    if site.folder is None and here is None and site.origin == "strategy" and not has_options:
        notes.append(
            f"{site.why}, but neither the site nor the pools say how to submit jobs: "
            f"'fasthep-smk site init {site.system} my_site' writes a site, and --profile my_site "
            "uses it"
        )
    findings += _too_long(used, site.longest, site.file)
    attempts = {name: by_place[ALL] for name, by_place in asked.items()}
    fallback_after = {
        rule.name: after for rule in rules if here is None and (after := rule.route.fallback_after)
    }
    if fallback_after and not system.TAKES_PILOTS:
        notes.append(
            f"fallback_after has no effect: executor {site.system!r} cannot remove a waiting job "
            "from its queue"
        )
        fallback_after = {}
    placement = Placement(
        site,
        _workers(execution, [attempt.pool for of_rule in attempts.values() for attempt in of_rule]),
        attempts,
        execution.router.retries,
        joined(rules, execution),
        fallback_after,
        execution.credentials,
        execution.staging,
        execution.environment,
        stated=stated,
        history=history,
        by_dataset={
            name: own
            for name, by_place in asked.items()
            if (own := {at: series for at, series in by_place.items() if at != ALL})
        },
    )
    return placement, list({str(item): item for item in findings}.values()), notes


def joined(rules: Iterable[Rule], execution: Execution) -> dict[str, int]:
    """Return how many partitions share a batch job of the rules for which several do."""
    site, pools = execution.site, execution.router.pools.by_name
    if execution.staging.sends(site.system) or sites.system(site.system).machine(site):
        return {}
    return {
        rule.name: count
        for rule in rules
        if rule.scope == "partition" and len(rule.jobs) > 1
        if (count := pools[rule.route.attempts[0].pool].settings.partitions_per_job) > 1
    }


def at_once(rule: Rule, execution: Execution, jobs: int | None) -> int:
    """Return how many jobs of a rule, of one core each, can run at the same time; ``jobs`` at most.

    To submit a job to a batch system takes so long that its jobs are never cut for more at once;
    pilots have a number of them.
    """
    here = sites.system(execution.site.system).machine(execution.site)
    if here is not None:
        return jobs or here.cpus
    first = rule.route.attempts[0]
    if first.pilot is None or joined([rule], execution):
        return 1
    count = int(_pilots().slots(first, _workers(execution, [first.pool])))
    return min(count, jobs or count)


def _workers(execution: Execution, pools: Iterable[str]) -> dict[str, int]:
    """Return how many workers pools have, if they say so."""
    by_name = execution.router.pools.by_name
    counts = {name: by_name[name].settings.workers for name in dict.fromkeys(pools)}
    return {name: count for name, count in counts.items() if count is not None}


def _as_written(
    stated: Sequence[Attempt], written: Mapping[str, object], where: str, system: sites.System
) -> tuple[Attempt, ...]:
    """Return attempts with the amounts that a person has ``written`` for their rule, as they stand.

    Those that only Snakemake can evaluate, such as ``attempt * 1000``, are not known here.
    """
    from fasthep_smk.plan.amounts import saying

    known = [
        amount for item in written.items() if (amount := written_amount(*item, system)) is not None
    ]
    series = []
    for attempt in stated:
        # Of what is not known here, the pool's amount stays, whatever other jobs take.
        named = {WRITTEN[name][0] for name in written if name in WRITTEN}
        amounts = {name: getattr(attempt.request, name) for name in named} | dict(known)
        most = {name: amount for name, amount in amounts.items() if amount is not None}
        why = {name: where for name, _ in known}
        series.append(saying(attempt, amounts, why, {**attempt.most, **most}))
    return tuple(series)


def _unknown_rules(site: Site, known: Sequence[str]) -> Iterable[Finding]:
    """Yield rules that options of the command line name, and that the workflow does not have."""
    for option, mark in (("set-resources", ":"), ("set-threads", "="), ("groups", "=")):
        for word in site.typed.get(option, ()):
            if (name := word.partition(mark)[0]) not in known:
                yield not_among(name, known, problem="no such rule", file=None, key=f"--{option}")


def _of_snakemake() -> Iterable[Finding]:
    """Yield that the installed Snakemake is one that would take our rules for something else.

    From 10 on its plugins decide what ``conda:`` and ``container:`` of a rule mean
    (https://github.com/snakemake/snakemake/pull/3339): jobs would run without their container.
    """
    version = metadata.version("snakemake")
    if not version.startswith("9."):
        yield Finding(
            problem=f"this Snakemake cannot be used: Snakemake {version}",
            expected="Snakemake 9, for which the rules are written",
            hint="pip install 'snakemake<10'",
        )


def settle_pilots(rules: Iterable[Rule], execution: Execution) -> list[str]:
    """Let rules do without pilots where none can be used; return why, in words."""
    piloted = [rule for rule in rules if any(attempt.pilot for attempt in rule.route.attempts)]
    here = sites.system(execution.site.system).machine(execution.site)
    why = _pilots().unusable(execution, here=here is not None) if piloted else None
    for rule in piloted if why else ():
        attempts = tuple(replace(attempt, pilot=None) for attempt in rule.route.attempts)
        rule.route = replace(rule.route, attempts=attempts)
    return [f"no pilots: {why}"] if why else []


def staffed(placement: Placement, rules: Iterable[Rule]) -> tuple[Placement, list[str]]:
    """Return the placement with the pilots that it needs, and what a user should know of them."""
    if not any(attempt.pilot for of_rule in placement.attempts.values() for attempt in of_rule):
        return placement, []
    crews, notes = _pilots().crews_of(placement, list(rules))
    return replace(placement, crews=crews), notes


def _pilots() -> ModuleType:
    """Return what plans pilots: an optional part, which is loaded where a pool asks for some."""
    return importlib.import_module("fasthep_smk.contrib.pilots.crews")


def contained(attempt: Attempt, execution: Execution) -> Attempt:
    """Let HTCondor run a job in the container that is asked for; elsewhere Snakemake starts it."""
    environment = execution.environment
    if environment is None or environment.image is None or execution.site.system != "htcondor":
        return attempt
    own = {"universe": "container", "container_image": environment.image}
    options = {**own, **attempt.options.get("htcondor", {})}
    return replace(attempt, options={**attempt.options, "htcondor": options})


def _is_measured(rules: Iterable[Rule], router: Router) -> bool:
    """Whether jobs of a rule may ask for what others took."""
    routes = ((pool, rule.stages) for rule in rules for pool in rule.route.pools)
    return any(router.measures(pool, stages) for pool, stages in routes)


def _on_one_machine(
    stated: tuple[Attempt, ...],
    asked: Iterable[Attempt],
    here: ResourceRequest,
    *,
    shrink: bool,
) -> tuple[tuple[Attempt, ...], list[str]]:
    """Return what is said of attempts, cut to what a machine has, and what was done, in words.

    ``asked`` is what each asks for while nothing has failed. The number of attempts stays: it
    stands in the Snakefile.
    """
    cut = tuple(sites.shrink(attempt, here)[0] for attempt in stated)
    excess = [sites.shrink(attempt, here)[1] for attempt in asked]
    if shrink:
        return cut, [text for texts in excess for text in texts]
    fitting = [attempt for attempt, texts in zip(cut, excess, strict=True) if not texts]
    if not fitting:
        return stated, []
    # A later try of a pool that fits asks for more memory: at most all there is.
    pools = {attempt.pool for attempt in fitting}
    kept = tuple(attempt if attempt.pool in pools else fitting[0] for attempt in cut)
    left = ", ".join(
        dict.fromkeys(repr(attempt.pool) for attempt in cut if attempt.pool not in pools)
    )
    text = f"pool {left} is larger than this machine: its jobs use pool {fitting[0].pool!r}"
    return kept, [text] if left else []


def _too_long(used: Iterable[Attempt], longest: int | None, file: str) -> Iterable[Finding]:
    for attempt in used:
        walltime = attempt.request.walltime
        if longest is not None and walltime is not None and walltime > longest:
            yield Finding(
                key=attempt.place("config.walltime"),
                problem=f"pool {attempt.pool!r} asks for more time than the site allows",
                value=f"walltime: {attempt.request.shown('walltime')}",
                expected=f"at most {format_duration(longest)} ({file}: limits.walltime)",
            )


def capped(placement: Placement, cores: int) -> list[str]:
    """Return which pools get fewer cpus than they ask for because of ``--jobs``."""
    asked = {
        attempt.pool: attempt.request.cpus
        for of_rule in placement.attempts.values()
        for attempt in of_rule
    }
    return [
        f"pool {pool!r}: each job gets {cores} of {cpus} cpus, because of --jobs {cores}"
        for pool, cpus in asked.items()
        if cpus > cores
    ]


def unsafe_path(execution: Execution, build: Path, launch: Path, *others: Path) -> Finding | None:
    """Return the first path that a batch system, or a shell on the way, would not leave as it is.

    Those are the folder that a run is started in, its build folder, and the interpreters of jobs:
    names of theirs stand in the commands that are submitted. A container is shown ``others``, too.
    """
    system, environment = execution.site.system, execution.environment
    image = environment.image if environment is not None else None
    module = sites.system(system)
    move = "move or rename the folder"
    folders = module.NOT_IN_FOLDERS
    paths = [
        (launch, "the folder that you run in", move, folders),
        (build, "the build folder", f"another --outdir, or {move}", folders),
    ]
    programs = module.NOT_IN_PROGRAMS
    other = "put the environment into a folder with another name, or rename this one"
    if not execution.staging.sends(system):  # jobs have the interpreter that runs this
        paths.append((Path(sys.executable), "the Python of jobs", other, programs))
    if environment is not None and image is None and not environment.is_packed:
        prefix = sys.prefix if environment.prefix == "current" else environment.prefix
        paths.append((Path(prefix), "the environment of jobs", other, programs))
    for path, label, hint, refused in paths:
        if bad := sorted(refused & set(str(path))):
            return Finding(
                problem=f"{system} would misread the name of {label}",
                value=as_yaml(str(path)),
                expected=f"a path without {', '.join(_IN_WORDS.get(char, char) for char in bad)}, "
                "because job commands contain the path",
                hint=hint,
            )
    for path in (build, launch, *others):
        if environment is not None and image and system != "htcondor" and _NOT_BOUND & {*str(path)}:
            return Finding(
                problem="this folder cannot be mounted in a container",
                file=environment.file,
                key="environment.type",
                value=as_yaml(str(path)),
                expected="a path without quotes ('), dollar signs, backslashes, colons or commas",
            )
    return None
