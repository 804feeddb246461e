"""The generated Snakemake profile: the site's own settings, and what each rule asks for there."""

from __future__ import annotations

import ast
import builtins
import contextlib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from fasthep_smk import sites
from fasthep_smk.config.credentials import Requirement
from fasthep_smk.config.environment import Environment
from fasthep_smk.config.requests import SYSTEMS, Attempt
from fasthep_smk.config.site import MAPPINGS, Site, as_mapping, as_two_levels, laid_over
from fasthep_smk.config.staging import Staging
from fasthep_smk.plan.rules import Rule
from fasthep_smk.storage.pilots import Crews
from fasthep_smk.translate.snakefile import lengthened, resources
from fasthep_smk.util.files import digest_of
from fasthep_smk.util.names import encode, literal, shell
from fasthep_smk.util.units import parse_bytes, parse_duration

if TYPE_CHECKING:
    from fasthep_smk.storage.measured import History

#: The place of all jobs of a rule that are at no other place.
ALL = ""
#: For every site. Thousands of short jobs: Snakemake's default scheduler and rate limit would cost
#: more than the jobs do.
BASE: Mapping[str, object] = {
    "scheduler": "greedy",
    "max-jobs-per-timespan": "10000/1s",
    # A job's record is written last: a job that has none runs again, and one that has it does not,
    # even if Snakemake was killed, or the job, before it had heard of its end.
    "rerun-incomplete": True,
    "ignore-incomplete": True,
    "keep-incomplete": True,
    # Nor do its notes on finished jobs tell us anything: fewer files to be written and damaged.
    "drop-metadata": True,
    # Results whose signature has changed are archived when the workflow is translated: what is
    # missing runs, and nothing else, whatever the clock of a file says.
    "rerun-triggers": ["mtime"],
    "printshellcmds": False,
}
#: How Snakemake calls amounts, how we do, and their units in bytes or seconds; 0: text for people.
WRITTEN = {
    "mem": ("memory", 0), "mem_mb": ("memory", 10**6), "mem_mib": ("memory", 2**20),
    "htcondor_request_mem_mb": ("memory", 2**20), "disk": ("disk", 0), "disk_mb": ("disk", 10**6),
    "disk_mib": ("disk", 2**20), "htcondor_request_disk_mb": ("disk", 2**20),
    "runtime": ("walltime", 60),
}  # fmt: skip
#: What Snakemake gives to jobs of a batch system that ask for nothing.
_SNAKEMAKES = {
    "mem_mb": "min(max(2*input.size_mb, 1000), 8000)",
    "disk_mb": "max(2*input.size_mb, 1000) if input else 50000",
}


@dataclass(frozen=True)
class Placement:
    """Where a translation goes: a site, the workers of its pools, and what was cut to fit.

    ``attempts`` are those of each rule, by its name, with no more than the site can give;
    ``by_dataset`` are, by rules and places, those of Snakemake's jobs that have amounts of their
    own. ``stated`` is what is said of both, with ``ALL`` as the place of the first, and ``history``
    what earlier jobs took. ``together`` is how many jobs of a rule share one of the batch system,
    where several do.
    ``fallback_after`` is how many seconds jobs of a rule wait in a queue before they go to their
    fallback.
    ``credentials`` are what jobs require, ``staging`` and ``environment`` how files reach them and
    what runs them, ``crews`` the pilots that some jobs go to.
    """

    site: Site
    workers: Mapping[str, int] = field(default_factory=dict)
    attempts: Mapping[str, tuple[Attempt, ...]] = field(default_factory=dict)
    retries: int = 0
    together: Mapping[str, int] = field(default_factory=dict)
    fallback_after: Mapping[str, int] = field(default_factory=dict)
    credentials: tuple[Requirement, ...] = ()
    staging: Staging = field(default_factory=Staging)
    environment: Environment | None = None
    crews: Crews | None = None
    by_dataset: Mapping[str, Mapping[str, tuple[Attempt, ...]]] = field(default_factory=dict)
    stated: Mapping[str, Mapping[str, tuple[Attempt, ...]]] = field(default_factory=dict)
    history: History = field(default_factory=dict)

    @property
    def image(self) -> str | None:
        """The image of the containers that Snakemake itself starts for jobs."""
        environment = self.environment
        return environment.image if environment and self.site.system != "htcondor" else None

    @property
    def transfers(self) -> bool:
        """Whether jobs are sent what they need."""
        return self.staging.sends(self.site.system)

    @property
    def changing(self) -> frozenset[str]:
        """The rules whose jobs may ask for other amounts while a run goes on.

        Where jobs travel, share a batch job or are started by a Snakemake on their node, as they
        are by executors that we do not know, they ask for what the translation knows. Pilots are
        cut into slots once.
        """
        is_contained = self.environment is not None and self.environment.image is not None
        if self.transfers or is_contained or self.site.system not in SYSTEMS:
            return frozenset()
        return frozenset(
            name
            for name, by_place in self.stated.items()
            if any(attempt.may_change for series in by_place.values() for attempt in series)
            and name not in self.together
            and not any(attempt.pilot for attempt in self.attempts[name])
        )

    def longest(self, attempt: Attempt) -> int | None:
        """Return for how many seconds a job may last at most, also several in one; ``None``: any.

        That is what the site says, and what its partition or flavour gives.
        """
        limit = sites.system(self.site.system).longest(attempt)
        return min((time for time in (self.site.longest, limit) if time is not None), default=None)

    def submitted_as(self) -> dict[str, list[str]]:
        """Return digests of what jobs of each rule are submitted with, attempt by attempt.

        What was measured is left out: new measurements do not make a job in the queue outdated.
        """
        site = {
            name: value
            for name, value in _adjusted(self.site).items()
            if name in ("default-resources", "set-resources", "set-threads")
        }
        by_rule = [site.pop(name, {}) for name in ("set-resources", "set-threads")]
        own = {
            rule: [
                [place, *(vars(attempt.request) for attempt in attempts)]
                for place, attempts in by_place.items()
                if place != ALL
            ]
            for rule, by_place in self.stated.items()
        }

        def digest(rule: str, number: int, attempt: Attempt) -> str:
            grows = [attempt.growth, dict(attempt.most)] if number else []
            request, options = vars(attempt.request), dict(attempt.options)
            of_rule = [as_mapping(setting).get(rule) for setting in by_rule]
            common = [attempt.pool, request, attempt.measured, options, site, of_rule]
            return digest_of([*common, *grows, *own[rule]])

        return {
            rule: [digest(rule, number, attempt) for number, attempt in enumerate(by_place[ALL])]
            for rule, by_place in self.stated.items()
        }


def render(rules: Iterable[Rule], placement: Placement, *, seen: Iterable[Path] = ()) -> str:
    """Return the text of a profile's ``config.yaml``.

    ``seen`` are folders that jobs in a container see, besides the build folder.
    """
    site = placement.site
    system = sites.system(site.system)
    settings: dict[str, object] = {
        # Relative to the profile's own folder: the build folder can move, and no character of its
        # path can mean anything to Snakemake.
        "snakefile": "../Snakefile",
        "directory": "../..",
        **BASE,
        "retries": placement.retries,
    }
    limits = {"resources": {pool_token(pool): n for pool, n in placement.workers.items()}}
    for layer in (dict(system.settings(site)), limits, _adjusted(site)):
        _lay(settings, layer)
    rules = list(rules)
    own: dict[str, dict[str, str | int]] = {}
    threads: dict[str, int] = {}
    defaults = as_mapping(settings.get("default-resources") or {})
    limited = as_mapping(settings.get("resources") or {})

    def unsaid(name: str) -> object:
        """Return what jobs get of a resource that they do not ask for; ``None``: nothing."""
        if name in defaults:
            return _default(defaults[name])
        of_snakemake = _SNAKEMAKES.get(name) if site.system != "local" else None
        return None if of_snakemake is None else _Python(of_snakemake)

    def asked(rule: Rule, attempts: Iterable[Attempt]) -> dict[str, Sequence[object]]:
        here = lengthened(rule, attempts, placement.longest)
        common = resources(here)
        return {**_tokens(here, limited), **common, **_of_system(here, system, common, unsaid)}

    for rule in rules:
        of_rule = placement.attempts[rule.name]
        stated = resources(lengthened(rule, rule.asked))
        apart = placement.by_dataset.get(rule.name, {})
        others = {place: asked(rule, attempts) for place, attempts in apart.items()}
        if unstated := _given(rule, asked(rule, of_rule), others, stated, unsaid):
            own[rule.name] = unstated
        cpus = max(attempt.request.cpus for attempt in of_rule)
        if cpus < max(attempt.request.cpus for attempt in rule.route.attempts):
            threads[rule.name] = cpus
        elif may_spread(rule) and site.system == "local":
            threads[rule.name] = rule.processes
    # What a person wrote into the site's profile has the last word; the amounts that we understand
    # are among our own.
    written = as_two_levels(settings.pop("set-resources", {}))
    for rule in rules:
        named = written.get(rule.name, {}).items()
        rest = {key: value for key, value in named if not written_amount(key, value, system)}
        written[rule.name] = laid_over(own.get(rule.name, {}), rest)
    settings["set-resources"] = {name: values for name, values in written.items() if values}
    if placement.together:
        groups = {name: name for name in placement.together}
        for name, ours in (("groups", groups), ("group-components", placement.together)):
            settings[name] = {**ours, **as_mapping(settings.get(name, {}))}
    if image := placement.image:
        binds = [word for path in dict.fromkeys(seen) for word in ("--bind", str(path))]
        options = filter(None, [shell(binds), str(settings.get("apptainer-args") or "")])
        settings["software-deployment-method"] = ["apptainer"]
        settings["apptainer-args"] = " ".join(options)
        settings["config"] = {"container": image, **as_mapping(settings.get("config", {}))}
    if placement.transfers:
        settings |= system.TRAVELLING
        settings["config"] = {"staging": "transfer", **as_mapping(settings.get("config", {}))}
    if threads:
        settings["set-threads"] = {**threads, **as_mapping(settings.get("set-threads", {}))}
    # Snakemake takes a setting without any value for a mistake.
    settings = {name: value for name, value in settings.items() if value not in ({}, [])}
    header = "# Run this workflow with: snakemake --profile THIS_FOLDER\n"
    return header + str(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=10000))


def written_amount(name: str, value: object, system: sites.System) -> tuple[str, int] | None:
    """Return the amount that a person has written for Snakemake, in bytes or seconds, if it is one.

    ``None`` for what only Snakemake can evaluate, such as ``attempt * 1000``.
    """
    amount, unit = WRITTEN.get(name, ("", 0))
    if not amount:
        return None
    with contextlib.suppress(ValueError):
        if unit and (isinstance(value, float) or str(value).isdecimal()):
            unit = 2**20 if name in system.AMOUNTS else unit
            return amount, int(float(str(value)) * unit)
        text = str(value).replace(" ", "")
        return amount, parse_duration(text) if amount == "walltime" else parse_bytes(text)
    return None


def pool_token(pool: str) -> str:
    """Return the name of the resource that counts the jobs of a pool."""
    return f"pool_{encode(pool)}"


def _tokens(attempts: Iterable[Attempt], limited: Container[str]) -> dict[str, list[int]]:
    """Return what a job counts as at each attempt in the pools whose jobs are ``limited``."""
    attempts = list(attempts)
    return {
        token: [int(attempt.pool == pool) for attempt in attempts]
        for pool in dict.fromkeys(attempt.pool for attempt in attempts)
        if (token := pool_token(pool)) in limited
    }


def may_spread(rule: Rule) -> bool:
    """Whether cores that are idle can serve a rule: no number of cores was given."""
    return rule.processes > max(attempt.request.cpus for attempt in rule.route.attempts) == 1


class _Python(str):
    """The Python expression of a resource, as a profile says it."""


#: The names that an expression of a resource may use, besides Python's own: Snakemake's
#: ``resources.py`` and ``ioutils``.
SNAKEMAKE_NAMES = frozenset({
    "wildcards", "input", "attempt", "threads", "system_tmpdir", "shutil", "async_run",
    "as_py_module", "branch", "choose_file", "choose_folder", "choose_tmp", "collect", "evaluate",
    "exists", "extract_checksum", "flatten", "lookup", "output", "params", "parse_input",
    "prepend_param", "resources", "subpath",
})  # fmt: skip


def _default(value: object) -> object:
    """Return what Snakemake makes of a resource of a site for all: an expression, or plain text.

    It takes for text what is no Python, and what has names that it does not know: ``short``.
    """
    text = str(value)
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return text
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    known = SNAKEMAKE_NAMES | set(dir(builtins)) | bound
    return _Python(text) if known.issuperset(node.id for node in names) else text


def _of_system(
    attempts: Iterable[Attempt],
    system: sites.System,
    common: Mapping[str, Sequence[int]],
    unsaid: Callable[[str], object],
) -> dict[str, list[object]]:
    """Return the resources that only this batch system knows, with their values by attempt.

    A pool that says nothing of one gets what it has elsewhere: the ``common`` value, or what
    ``unsaid`` tells. Of an amount it takes the other pool's word: a job needs as much wherever it
    runs.
    """
    own = [dict(system.resources(attempt)) for attempt in attempts]
    by_name: dict[str, list[object]] = {}
    for name in dict.fromkeys(name for row in own for name in row):
        elsewhere: Sequence[object] = common.get(name) or [unsaid(name)] * len(own)
        if name in system.AMOUNTS:
            elsewhere = [next(row[name] for row in own if name in row)] * len(own)
        by_name[name] = [row.get(name, other) for row, other in zip(own, elsewhere, strict=True)]
    return by_name


def _expression(values: Sequence[object]) -> str | int:
    """Return a number, or the Python expression that Snakemake evaluates for a resource."""
    first = values[0]
    if type(first) is int and len(set(values)) == 1:
        return first
    texts = [_python(value) for value in values]
    if len(set(texts)) == 1:
        return texts[0]
    return f"{_list(values)}[min(attempt, {len(texts)}) - 1]"


def _given(
    rule: Rule,
    wanted: Mapping[str, Sequence[object]],
    apart: Mapping[str, Mapping[str, Sequence[object]]],
    stated: Mapping[str, Sequence[object]],
    unsaid: Callable[[str], object],
) -> dict[str, str | int]:
    """Return the resources of a rule that its Snakefile does not state.

    ``wanted`` are its resources, ``apart`` those of its jobs at some places, ``unsaid`` tells what
    a job has of a resource that only others ask for: ``None``, which Snakemake takes for not set,
    if that is nothing.
    """
    number = len(rule.route.attempts)
    unstated: dict[str, str | int] = {}
    for name in dict.fromkeys(name for names in (wanted, *apart.values()) for name in names):
        values = wanted.get(name) or [unsaid(name)] * number
        others = {place: own.get(name, values) for place, own in apart.items()}
        others = {place: other for place, other in others.items() if other != values}
        if others:
            unstated[name] = _expression_by_place(rule, values, others)
        elif values != stated.get(name):
            unstated[name] = _expression(values)
    return unstated


def _expression_by_place(
    rule: Rule, values: Sequence[object], others: Mapping[str, Sequence[object]]
) -> str:
    """Return the expression for jobs that ask for ``values``, but at the places of ``others``."""
    part = rule.named_by[-1]
    chosen = _list(values)
    for where, is_part in (
        ("wildcards.dataset", False),
        (f'wildcards.dataset + "/" + wildcards.{part}', True),
    ):
        here = {place: own for place, own in others.items() if ("/" in place) == is_part}
        if here:
            # Without braces, which Snakemake takes for fields of its messages.
            table = ", ".join(f"({literal(place)}, {_list(own)})" for place, own in here.items())
            chosen = f"dict([{table}]).get({where}, {chosen})"
    return f"{chosen}[min(attempt, {len(values)}) - 1]"


def _list(values: Sequence[object]) -> str:
    return f"[{', '.join(map(_python, values))}]"


def _python(value: object) -> str:
    """Return the expression that gives a value."""
    if isinstance(value, _Python):
        return value
    return literal(value) if isinstance(value, str | int) else repr(value)


def _adjusted(site: Site) -> dict[str, object]:
    """Return the site's own settings, with paths in its folder made absolute."""
    settings: dict[str, object] = {}
    for key, value in site.settings.items():
        if key in MAPPINGS:
            settings[key] = as_mapping(value)
        elif key == "set-resources":
            settings[key] = as_two_levels(value)
        elif isinstance(value, str) and site.folder and (site.folder / value).exists():
            settings[key] = str(Path(site.folder / value))
        elif key not in ("snakefile", "directory"):
            settings[key] = value
    return settings


def _lay(settings: dict[str, object], layer: Mapping[str, object]) -> None:
    for name, value in layer.items():
        there = settings.get(name)
        if isinstance(value, Mapping) and isinstance(there, dict):
            settings[name] = laid_over(there, value)
        else:
            settings[name] = value
