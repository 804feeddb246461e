"""A site profile: a folder as Snakemake knows it, and what stands in its ``pools.yaml``.

That may be ``default`` (for every pool), ``pool_profiles`` by name, ``limits``, ``machine``,
``environment``, ``staging``, ``credentials``, ``keep_logs`` and ``waiting``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fasthep_smk.config import schema
from fasthep_smk.config.requests import SYSTEMS
from fasthep_smk.config.secret_urls import secret_findings
from fasthep_smk.config.site import PROFILE_FILES, Site, snakemake_folders
from fasthep_smk.util import executor_plugins as plugins
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, Findings, invalid, not_among, read_value
from fasthep_smk.util.names import shell
from fasthep_smk.util.ownership import problem_of
from fasthep_smk.util.units import parse_bytes, parse_duration
from fasthep_smk.util.yaml_files import load_each_key_once
from fasthep_smk.util.yaml_values import as_yaml

_CONFIGS = PROFILE_FILES[:2]
#: Profiles of ours: examples to copy, and some to use by their names.
_PROFILES = Path(__file__).parent / "profiles"


def read_site(profile: str, key: str, workflow: Path) -> Site:
    """Return the site in a profile, a folder or a name; ``key`` is the option that gave it, if any.

    Raises:
        Findings: it does not exist, or something in it is wrong.
    """
    why = f"{key} {profile}".strip()
    folder = _find(profile, key)
    if folder is None:
        return Site(profile, why=why)
    if "/" not in profile or not key:  # it was looked for
        _refuse_of_others(folder, profile, key, workflow)
    settings, file = _settings(folder)
    executor = settings.get("executor", "local")
    findings: list[Finding] = [*_executor_findings(executor, file)]
    retries = settings.get("retries", 0)
    if type(retries) is not int or not 0 <= retries <= 100:
        findings.append(invalid(file, "retries", retries, "a whole number, 0 to 100"))
    content, path = _pools(folder, findings)

    def read(parse: Callable[[object], int], *keys: str) -> int | None:
        value: Any = content
        for name in keys:
            value = (value or {}).get(name)
        return read_value(parse, value, findings, file=path, key=".".join(keys))

    longest = read(parse_duration, "limits", "walltime")
    waiting, keep_logs = read(parse_duration, "waiting"), read(parse_duration, "keep_logs")
    for name in ("memory", "disk"):
        read(parse_bytes, "machine", name)
    if findings:
        raise Findings(findings)
    return Site(
        system=str(executor),
        folder=folder,
        why=why,
        settings=settings,
        file=path,
        longest=longest,
        waiting=waiting or Site.waiting,
        keep_logs=keep_logs or Site.keep_logs,
        said=content,
    )


def _executor_findings(executor: object, file: str) -> Iterator[Finding]:
    """Yield why an executor cannot be used: it is unknown, or its plugin is not installed."""
    if executor in SYSTEMS or (isinstance(executor, str) and plugins.is_installed(executor)):
        return
    install = None
    if isinstance(executor, str) and plugins.NAME.fullmatch(executor):
        plugin = plugins.distribution_of(executor)
        install = f"if there is such a plugin: pip install {plugin}"
    yield Finding(
        file=file,
        key="executor",
        problem="there is no such executor here",
        value=as_yaml(executor),
        expected=f"{', '.join(SYSTEMS)}, or one whose Snakemake plugin is installed",
        hint=install,
    )


def _find(profile: str, key: str) -> Path | None:
    """Return the folder of a profile; ``None`` for the plain settings of a batch system."""
    if not profile.strip():
        raise Findings.one("the name is empty", key=key, expected="a folder or a name")
    folder = Path(profile).expanduser()
    # os.path: of a name that is too long, nothing is there.
    if any(os.path.exists(folder / name) for name in PROFILE_FILES):  # noqa: PTH110
        return folder.resolve()
    known: list[str] = [*SYSTEMS]
    for top in snakemake_folders():
        if "/" not in profile and os.path.isdir(top / profile):  # noqa: PTH112
            return (top / profile).resolve()
        known += [item.name for item in top.glob("*") if item.is_dir()] if top.is_dir() else []
    if profile in SYSTEMS:
        return None
    ours = sorted(item.name for item in _PROFILES.iterdir())
    if profile in ours:
        return _PROFILES / profile
    known += [name for name in ours if name not in known]
    has_none = os.path.isdir(folder)  # noqa: PTH112
    problem = "has no config.yaml" if has_none else "there is no such profile"
    finding = not_among(profile, known, problem=problem, file=None, key=key)
    expected = f"a folder with a config.yaml, or one of {', '.join(known)}"
    raise Findings([replace(finding, expected=expected)])


def _refuse_of_others(folder: Path, profile: str, key: str, workflow: Path) -> None:
    """Refuse a profile that was found by its name and that others may have written.

    If it is a default, which no ``key`` gave, the folder above counts, too.

    Raises:
        Findings: it names Python that runs, and options of the batch system.
    """
    above = [] if key else [Path(profile).parent]
    for path in (*above, folder, *(folder / name for name in PROFILE_FILES)):
        if (problem := problem_of(path, workflow)) is not None:
            raise Findings.one(
                f"is not used, since {problem}",
                file=str(path),
                key=key or None,
                value=as_yaml(profile),
                expected="a profile that only you can write to",
                hint=f"if this file is yours: {shell(['chmod', '-R', 'go-w', path])}; "
                f"if you trust its author: {shell(['--profile', folder])}",
            )


def _settings(folder: Path) -> tuple[YamlMapping, str]:
    for name in _CONFIGS:
        if (folder / name).exists():
            content = _read(folder / name)
            if not isinstance(content, dict):
                raise Findings.one(
                    "is not a mapping",
                    file=str(folder / name),
                    expected="options of Snakemake, each as key: value",
                )
            # Snakemake takes both spellings: --set-resources and set_resources.
            return {str(key).replace("_", "-"): content[key] for key in content}, str(folder / name)
    return {}, str(folder / "config.yaml")


def _pools(folder: Path, findings: list[Finding]) -> tuple[YamlMapping, str]:
    path = folder / "pools.yaml"
    if not path.exists():
        return {}, str(path)
    content = _read(path)
    wrong = schema.findings_of(content, "site", file=str(path))
    findings += wrong or secret_findings(content, file=str(path))
    return dict(content) if not wrong else {}, str(path)


def _read(path: Path) -> Any:
    return load_each_key_once(path, partial(schema.misread, part="site", file=str(path))) or {}
