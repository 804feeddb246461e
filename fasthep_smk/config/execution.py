"""All that a workflow, its profiles and the site say about where stages run, read and checked."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.config import schema
from fasthep_smk.config.credentials import Requirement, requirements_of
from fasthep_smk.config.environment import Environment, read_environment, runtime_findings
from fasthep_smk.config.layers import Layer, merge
from fasthep_smk.config.pools import make_pools
from fasthep_smk.config.requests import SYSTEMS
from fasthep_smk.config.routing import MEMORY_OPTIONS, Router, stage_needs
from fasthep_smk.config.settings import CONFIG_KEYS
from fasthep_smk.config.site import Site, default_profile, with_options
from fasthep_smk.config.staging import Staging, read_staging, staging_findings
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, Findings, nearest, not_among

if TYPE_CHECKING:
    from fasthep_smk.config.dataset_sizes import DatasetSize

#: FAST-HEP's names for running on the machine where one is.
_LOCAL_STRATEGIES = ("default", "local", "threads", "processes", "synchronous")
#: Backends for which nothing needs to be said.
_LOCAL_BACKENDS = ("local", "snakemake")
#: What says how much memory jobs get, among the resources of jobs that name none.
_MEMORY = re.compile(rf"\bmem['\"]?\s*[=:]|mem_mb|mem_mib|request_mem|{MEMORY_OPTIONS}")


@dataclass(frozen=True)
class Execution:
    """Where a workflow's stages run. ``notices`` are worth one line each, once.

    ``environment`` is with which environment, if a workflow or a site says so; ``staging`` is how
    files reach jobs, ``credentials`` are those that they require, ``by_dataset`` what the jobs of
    some datasets ask for.
    """

    site: Site
    router: Router
    asked: tuple[str, ...]
    notices: tuple[str, ...]
    environment: Environment | None = None
    staging: Staging = field(default_factory=Staging)
    credentials: tuple[Requirement, ...] = ()
    by_dataset: tuple[DatasetSize, ...] = ()


def load_site(profile: str | None, strategy: str, *, workflow: str) -> Site:
    """Return the site that ``--profile`` names, or `default_profile`, or ``execution.strategy``.

    Raises:
        Findings: the profile does not exist, or something in it is wrong.
    """
    system, key = _system_of(strategy, workflow), "--profile"
    if profile is None:
        profile, key = default_profile(workflow, strategy)
    if profile is None:
        return Site(system, why=f"execution.strategy: {strategy}")
    from fasthep_smk.config.site_profile import read_site

    if key == "--profile":
        return replace(read_site(profile, key, Path(workflow)), origin="option")
    try:
        return replace(read_site(profile, key, Path(workflow)), origin="default")
    except Findings as error:
        raise Findings([_or_here(finding) for finding in error.findings]) from None


def _or_here(finding: Finding) -> Finding:
    """Return a finding about a default site, with how to run without it."""
    here = "run on this machine: --profile local"
    return replace(finding, hint=f"{finding.hint} (or {here})" if finding.hint else here)


def _system_of(strategy: str, workflow: str) -> str:
    if strategy in _LOCAL_STRATEGIES:
        return "local"
    if strategy in SYSTEMS:
        return strategy
    finding = not_among(
        strategy,
        SYSTEMS,
        problem="fasthep-smk has no such strategy",
        file=workflow,
        key="execution.strategy",
    )
    hint = finding.hint or "you can also choose a site with --profile"
    raise Findings([replace(finding, hint=hint)])


def read_execution(
    document: YamlMapping,
    sections: Mapping[str, YamlMapping | None],
    *,
    profile: str | None,
    workflow: str,
    options: Mapping[str, list[str]] | None = None,
) -> tuple[Execution | None, list[Finding]]:
    """Return what is said about where stages run, or what is wrong with it.

    ``sections`` are the ``execution`` sections of FAST-HEP's profiles by file; ``profile`` is what
    ``--profile`` names, ``options`` are those of the command line that add to its settings.
    """
    own = document.get("execution")
    needs, wrong = stage_needs(document, workflow=workflow)
    findings = _section_findings(own, workflow)
    for file, section in sections.items():
        findings += _section_findings(section, file)
    findings += wrong
    own = own if isinstance(own, dict) else {}
    site = None
    try:
        strategy = own.get("strategy", "default")
        named = strategy if isinstance(strategy, str) else "default"
        site = load_site(profile, named, workflow=workflow)
        site = with_options(site, options) if options else site
    except Findings as error:
        findings += error.findings
    if findings or site is None:
        return None, findings
    layers = [Layer(file, "execution", section or {}) for file, section in sections.items()]
    layers.append(Layer(workflow, "execution", own))
    everywhere = [Layer(site.file, "", site.said), *layers]
    environment, staging = read_environment(everywhere), read_staging(merge(everywhere))
    findings = [*staging_findings(staging, environment, site.system)]
    findings += runtime_findings(environment, site.system, transfers=staging.transfers)
    merged = merge(layers)
    defaults = {
        kind: (name, merged.origins["default_pools", kind])
        for kind in ("cpu", "gpu")
        if (name := merged.get("default_pools", kind)) is not None
    }
    asked = [
        label
        for item in needs.values()
        for label in (item.require, item.prefer, item.fallback)
        if label
    ]
    pools, wrong = make_pools(layers, site, [*asked, *(name for name, _ in defaults.values())])
    router = Router(pools, needs, workflow, defaults, learns=_learns(site))
    credentials, vain = requirements_of(everywhere)
    findings += [*wrong, *router.findings(), *vain]
    by_dataset: list[DatasetSize] = []
    if any("sizes" in layer.content for layer in layers):
        from fasthep_smk.config.dataset_sizes import of_datasets

        by_dataset, unread = of_datasets(layers)
        findings += unread
    execution = Execution(
        site=site,
        router=router,
        asked=tuple(dict.fromkeys(asked)),
        notices=(*_notices(own, workflow), *_environment_notices(environment, staging, site)),
        environment=environment,
        staging=staging,
        credentials=credentials,
        by_dataset=tuple(by_dataset),
    )
    return execution, list({str(finding): finding for finding in findings}.values())


def _learns(site: Site) -> bool:
    """Whether jobs are measured where no amount is given: by a batch system, and not the site.

    On one machine, those that share it would not know what there is.
    """
    resources = repr(site.settings.get("default-resources"))
    return site.system in ("slurm", "htcondor") and not _MEMORY.search(resources)


def _section_findings(section: object, file: str) -> list[Finding]:
    """Return what is wrong with an ``execution`` section; of its free ``config``, with our keys."""
    findings = schema.findings_of(section, "execution", file=file, key="execution")
    config = section.get("config") if isinstance(section, dict) else None
    if isinstance(config, dict):
        ours = {key: config[key] for key in CONFIG_KEYS if key in config}
        findings += schema.findings_of(ours, "config", file=file, key="execution.config")
    return findings


def _environment_notices(
    environment: Environment | None, staging: Staging, site: Site
) -> list[str]:
    if staging.transfers and site.system == "local":
        return [
            f"{staging.file}: staging.mode: 'transfer' has no effect, because jobs run on "
            "this machine"
        ]
    if environment is None or site.system == "local" or staging.transfers:
        return []
    if environment.is_packed:
        return [
            f"{environment.file}: environment: {environment.type} is sent with jobs only if "
            "staging.mode is 'transfer'. Here, jobs use the environment of fasthep-smk itself, at "
            "its path on this machine"
        ]
    if environment.type == "shared-prefix" and environment.prefix not in ("current", sys.prefix):
        return [
            f"{environment.file}: environment: prefix {environment.prefix!r} is not supported. "
            f"Jobs use the environment of fasthep-smk, {sys.prefix}"
        ]
    return []


def _notices(own: YamlMapping, workflow: str) -> Iterator[str]:
    """Yield what of a workflow has no effect here, and is no mistake."""
    backend = str(own.get("backend", "local"))
    if backend not in _LOCAL_BACKENDS:
        yield (
            f"{workflow}: execution.backend: {backend!r} is not used here, because Snakemake "
            "schedules the jobs"
        )
    # Those of Dask, too, are no slips of ours.
    known = schema.load("config")["$defs"]["config"]["properties"]
    for key in own.get("config") or {}:
        if key not in known and (close := nearest(key, CONFIG_KEYS)):
            yield (
                f"{workflow}: execution.config: {key!r} has no effect here: did you mean {close!r}?"
            )
