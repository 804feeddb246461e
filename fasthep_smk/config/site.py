"""A site: which batch system, its Snakemake profile, and what its ``pools.yaml`` says.

A site profile is a folder as Snakemake knows it (``config.yaml``), in which a ``pools.yaml`` may
stand: ``default`` (for every pool), ``pool_profiles`` by name, ``limits``, ``machine``,
``environment``, ``staging``, ``credentials``, ``keep_logs`` and ``waiting``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard

from fasthep_smk.config import schema
from fasthep_smk.config.requests import SYSTEMS
from fasthep_smk.config.secret_urls import secret_findings
from fasthep_smk.util import executor_plugins as plugins
from fasthep_smk.util.bounded_yaml import load_each_key_once
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, Findings, nearest
from fasthep_smk.util.names import shell
from fasthep_smk.util.ownership import problem_of
from fasthep_smk.util.units import parse_bytes, parse_duration
from fasthep_smk.util.yaml_values import as_yaml

__all__ = ["Site", "load_site"]

#: FAST-HEP's names for running on the machine where one is.
_LOCAL_STRATEGIES = ("default", "local", "threads", "processes", "synchronous")
_CONFIGS = ("config.v9+.yaml", "config.yaml")
#: Profiles of ours: examples to copy, and some to use by their names.
_PROFILES = Path(__file__).parent / "profiles"


@dataclass(frozen=True)
class Site:
    """Where a run goes. ``waiting``, ``keep_logs``: seconds; ``file``: the site's pools.yaml.

    ``said`` is all that stands there.
    """

    system: str
    folder: Path | None = None
    why: str = ""
    settings: YamlMapping = field(default_factory=dict)
    file: str = "pools.yaml"
    default: YamlMapping = field(default_factory=dict)
    pool_profiles: Mapping[str, YamlMapping | None] = field(default_factory=dict)
    machine: Mapping[str, object] = field(default_factory=dict)
    longest: int | None = None
    waiting: int = 60
    keep_logs: int = 30 * 24 * 3600
    said: YamlMapping = field(default_factory=dict)


def load_site(profile: str | None, strategy: str, *, workflow: str) -> Site:
    """Return the site that ``--profile`` names, or else the one of ``execution.strategy``.

    Raises:
        Findings: the profile does not exist, or something in it is wrong.
    """
    system = _system_of(strategy, workflow)
    if profile is None:
        return Site(system, why=f"execution.strategy: {strategy}")
    folder = _find(profile)
    if folder is None:
        return Site(profile, why=f"--profile {profile}")
    if "/" not in profile:  # it was looked for, in the current folder first
        _refuse_of_others(folder, profile, Path(workflow))
    settings, file = _settings(folder)
    executor = settings.get("executor", "local")
    findings: list[Finding] = [*_executor_findings(executor, file)]
    retries = settings.get("retries", 0)
    if type(retries) is not int or not 0 <= retries <= 100:
        findings.append(
            Finding(
                file=file,
                key="retries",
                problem="is not a valid value",
                value=as_yaml(retries),
                expected="a whole number, 0 to 100",
            )
        )
    content, path = _pools(folder, findings)
    if findings:
        raise Findings(findings)
    limits = content.get("limits") or {}
    waiting = content.get("waiting")
    return Site(
        system=str(executor),
        folder=folder,
        why=f"--profile {profile}",
        settings=settings,
        file=path,
        default=content.get("default") or {},
        pool_profiles=content.get("pool_profiles") or {},
        machine=content.get("machine") or {},
        longest=parse_duration(limits["walltime"]) if limits.get("walltime") else None,
        waiting=parse_duration(waiting) if waiting else Site.waiting,
        keep_logs=parse_duration(content["keep_logs"])
        if content.get("keep_logs")
        else Site.keep_logs,
        said=content,
    )


def _executor_findings(executor: object, file: str) -> Iterator[Finding]:
    """Yield why an executor cannot be used: it is unknown, or its plugin is not installed."""
    if executor in SYSTEMS or (isinstance(executor, str) and plugins.is_installed(executor)):
        return
    close = nearest(str(executor), [*SYSTEMS, *plugins.installed()])
    meant = f"did you mean {close!r}?" if close else ""
    install = f"pip install {plugins.distribution_of(executor)}" if _is_name(executor) else ""
    yield Finding(
        file=file,
        key="executor",
        problem="no such executor here",
        value=as_yaml(executor),
        expected=f"{', '.join(SYSTEMS)}, or one whose plugin of Snakemake's is installed",
        hint=" Or, if there is such a plugin: ".join(filter(None, (meant, install))) or None,
    )


def _is_name(executor: object) -> TypeGuard[str]:
    return isinstance(executor, str) and plugins.NAME.fullmatch(executor) is not None


def _system_of(strategy: str, workflow: str) -> str:
    if strategy in _LOCAL_STRATEGIES:
        return "local"
    if strategy in SYSTEMS:
        return strategy
    close = nearest(strategy, SYSTEMS)
    raise Findings.one(
        "no such strategy here",
        file=workflow,
        key="execution.strategy",
        value=as_yaml(strategy),
        expected=", ".join(SYSTEMS),
        hint=f"did you mean {close!r}?" if close else "or choose a site with --profile",
    )


def _find(profile: str) -> Path | None:
    """Return the folder of a profile; ``None`` for the plain settings of a batch system."""
    if not profile.strip():
        raise Findings.one("the name is empty", key="--profile", expected="a folder or a name")
    folder = Path(profile[:4000]).expanduser()
    if len(folder.name) > 255:
        raise Findings.one("no such profile", key="--profile", value=f"{profile[:50]}...")
    if folder.is_dir() and any((folder / name).exists() for name in (*_CONFIGS, "pools.yaml")):
        return folder.resolve()
    known: list[str] = [*SYSTEMS]
    for top in _snakemake_folders():
        if "/" not in profile and (top / profile).is_dir():
            return (top / profile).resolve()
        known += [item.name for item in top.glob("*") if item.is_dir()] if top.is_dir() else []
    if profile in SYSTEMS:
        return None
    ours = sorted(item.name for item in _PROFILES.iterdir())
    if profile in ours:
        return _PROFILES / profile
    known += [name for name in ours if name not in known]
    what = "holds no config.yaml" if folder.is_dir() else "no such profile"
    close = nearest(profile, known)
    raise Findings.one(
        what,
        key="--profile",
        value=as_yaml(profile),
        expected=f"a folder with a config.yaml, or one of {', '.join(known)}",
        hint=f"did you mean {close!r}?" if close else None,
    )


def _refuse_of_others(folder: Path, profile: str, workflow: Path) -> None:
    """Refuse a profile that was found by its name and that others may have written.

    Raises:
        Findings: it names Python that runs, and options of the batch system.
    """
    for path in (folder, *(folder / name for name in (*_CONFIGS, "pools.yaml"))):
        if (problem := problem_of(path, workflow)) is not None:
            raise Findings.one(
                f"is not used, since {problem}",
                file=str(path),
                key="--profile",
                value=as_yaml(profile),
                expected="a profile of yours that only you can write to: it was found by its name",
                hint=f"{shell(['chmod', '-R', 'go-w', folder])}, if it is yours; "
                f"{shell(['--profile', folder])}, if you trust its author",
            )


def _snakemake_folders() -> list[Path]:
    """Return where Snakemake looks for profiles by name (its documentation: Profiles)."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    system = os.environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")
    return [Path(top) / "snakemake" for top in (home, *system) if top]


def _settings(folder: Path) -> tuple[YamlMapping, str]:
    for name in _CONFIGS:
        if (folder / name).exists():
            content = _read(folder / name)
            if not isinstance(content, dict):
                raise Findings.one(
                    "is not a mapping", file=str(folder / name), expected="Snakemake's options"
                )
            return content, str(folder / name)
    return {}, str(folder / "config.yaml")


def _pools(folder: Path, findings: list[Finding]) -> tuple[YamlMapping, str]:
    path = folder / "pools.yaml"
    if not path.exists():
        return {}, str(path)
    content = _read(path)
    wrong = schema.findings_of(content, "site", file=str(path))
    if not wrong:
        wrong = [*_unreadable(content, str(path)), *secret_findings(content, file=str(path))]
    findings += wrong
    return dict(content) if not wrong else {}, str(path)


def _unreadable(content: YamlMapping, file: str) -> Iterator[Finding]:
    """Yield amounts that have the right shape and mean nothing: ``00:00:00``, ``0GB``."""
    machine = content.get("machine") or {}
    for key, value, parse in (
        ("limits.walltime", (content.get("limits") or {}).get("walltime"), parse_duration),
        ("waiting", content.get("waiting"), parse_duration),
        ("keep_logs", content.get("keep_logs"), parse_duration),
        ("machine.memory", machine.get("memory"), parse_bytes),
        ("machine.disk", machine.get("disk"), parse_bytes),
    ):
        try:
            if value is not None:
                parse(value)
        except ValueError as error:
            problem = "is not a valid value"
            yield Finding(
                file=file, key=key, problem=problem, value=as_yaml(value), expected=str(error)
            )


def _read(path: Path) -> Any:
    return load_each_key_once(path, partial(schema.misread, part="site", file=str(path))) or {}
