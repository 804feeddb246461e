"""A site: which batch system, its Snakemake profile, and what its ``pools.yaml`` says."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from fasthep_smk.util.documents import YamlMapping

#: A profile has one of these files at least; the first ``config`` that exists is read.
PROFILE_FILES = ("config.v9+.yaml", "config.yaml", "pools.yaml")
#: Names the profile for Snakemake if no option does.
_VARIABLE = "SNAKEMAKE_PROFILE"
#: Settings of a profile with a name and a value each.
MAPPINGS = (
    "resources",
    "set-threads",
    "default-resources",
    "config",
    "set-resource-scopes",
    "groups",
    "group-components",
)
_OTHER_NAMES = {
    "config": ("-C",),
    "resources": ("--res",),
    "default-resources": ("--default-res",),
}


@dataclass(frozen=True)
class Site:
    """Where a run goes. ``waiting``, ``keep_logs``: seconds; ``file``: the site's pools.yaml.

    ``said`` is all that stands there, ``typed`` what the command line adds to ``settings``.
    ``origin`` is what chose the site, ``why`` that in words: ``--profile``,
    ``execution.strategy``, or a default, which nobody names for this run.
    """

    system: str
    folder: Path | None = None
    origin: Literal["option", "strategy", "default"] = "strategy"
    why: str = ""
    settings: YamlMapping = field(default_factory=dict)
    file: str = "pools.yaml"
    longest: int | None = None
    waiting: int = 60
    keep_logs: int = 30 * 24 * 3600
    said: YamlMapping = field(default_factory=dict)
    typed: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def machine(self) -> YamlMapping:
        """What the site says that this machine has."""
        return self.said.get("machine") or {}


def default_profile(workflow: str, strategy: str = "default") -> tuple[str | None, str]:
    """Return the profile to use without ``--profile``, and the variable that names it, if any.

    As in Snakemake, the environment comes first, then ``profiles/default`` beside the workflow. The
    default of the user, or of all users, counts only if the workflow has no ``strategy``.
    """
    named = os.environ.get(_VARIABLE, "").strip()
    if named not in ("", "none"):
        file = Path(named).expanduser()
        is_file = file.name in PROFILE_FILES and os.path.isfile(file)  # noqa: PTH113
        return str(file.parent) if is_file else named, _VARIABLE
    tops = [Path(workflow).parent / "profiles"]
    tops += snakemake_folders() if strategy == "default" else []
    for folder in (top / "default" for top in tops):
        # A folder that cannot be read has no profile.
        if any(os.path.isfile(folder / name) for name in PROFILE_FILES):  # noqa: PTH113
            return str(folder), ""
    return None, ""


def snakemake_folders() -> list[Path]:
    """Return where Snakemake looks for profiles by name (its documentation: Profiles)."""
    # Without a home directory the path stays as it is, and does not exist.
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    system = os.environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")
    return [Path(top) / "snakemake" for top in (home, *system) if top]


def split_options(arguments: Iterable[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Take those options out of Snakemake's ``arguments`` that add to settings of a profile.

    Snakemake itself would take them in place of the whole setting: jobs would lose their pools.

    Raises:
        ValueError: an option is not NAME=VALUE, or RULE:NAME=VALUE; the message says which.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in (*MAPPINGS, "set-resources"):
        parser.add_argument(f"--{name}", *_OTHER_NAMES.get(name, ()), dest=name, nargs="*")
    found, others = parser.parse_known_args([*arguments])
    options = {name: words for name, words in vars(found).items() if words is not None}
    for name, words in options.items():
        for word in words or [""]:
            rule, colon, rest = word.partition(":") if name == "set-resources" else ("-", ":", word)
            key, equals, _ = rest.partition("=")
            if not (rule and colon and key and equals):
                form = "RULE:NAME=VALUE" if name == "set-resources" else "NAME=VALUE"
                raise ValueError(f"--{name} {word}: not of the form {form}")
    return options, others


def with_options(site: Site, options: Mapping[str, list[str]]) -> Site:
    """Return a site with options of the command line laid over its settings."""
    settings = dict(site.settings)
    for name, words in options.items():
        if name == "set-resources":
            there, added = as_two_levels(settings.get(name) or {}), as_two_levels(words)
            settings[name] = {
                rule: laid_over(there.get(rule, {}), added.get(rule, {}))
                for rule in {**there, **added}
            }
        else:
            settings[name] = laid_over(as_mapping(settings.get(name) or {}), as_mapping(words))
    return replace(site, settings=settings, typed=options)


def laid_over(there: Mapping[str, object], added: Mapping[str, object]) -> dict[str, object]:
    """Return values with others in their places: of ``mem``, ``mem_mb`` and ``mem_mib`` one stays.

    Snakemake refuses two of them.
    """
    kinds = {_amount(name) for name in added}
    return {**{name: there[name] for name in there if _amount(name) not in kinds}, **added}


def _amount(name: str) -> str:
    amount, _, unit = name.partition("_")
    return amount if amount in ("mem", "disk") and unit in ("mb", "mib") else name


def as_mapping(value: object) -> dict[str, object]:
    """Return ``name=value`` settings, however a profile wrote them, as a mapping."""
    if isinstance(value, Mapping):
        return dict(value)
    listed = value if isinstance(value, list) else str(value).split()
    pairs = [str(item).partition("=") for item in listed]
    # Of a mapping, Snakemake takes "1000" for text.
    return {name: int(text) if text.isdecimal() else text for name, _, text in pairs}


def as_two_levels(value: object) -> dict[str, dict[str, object]]:
    """Return the resources of each rule, however a profile wrote ``set-resources``."""
    if isinstance(value, Mapping):
        return {rule: as_mapping(content) for rule, content in value.items()}
    by_rule: dict[str, dict[str, object]] = {}
    for item in value if isinstance(value, list) else str(value).split():
        rule, _, assignment = str(item).partition(":")
        by_rule.setdefault(rule, {}).update(as_mapping([assignment]))
    return by_rule
