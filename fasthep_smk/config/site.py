"""A site: which batch system, its Snakemake profile, and what its ``pools.yaml`` says."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fasthep_smk.util.documents import YamlMapping

#: A profile has one of these files at least; the first ``config`` that exists is read.
PROFILE_FILES = ("config.v9+.yaml", "config.yaml", "pools.yaml")
#: Names the profile for Snakemake if no option does.
_VARIABLE = "SNAKEMAKE_PROFILE"


@dataclass(frozen=True)
class Site:
    """Where a run goes. ``waiting``, ``keep_logs``: seconds; ``file``: the site's pools.yaml.

    ``said`` is all that stands there. ``origin`` is what chose the site, ``why`` that in words:
    ``--profile``, ``execution.strategy``, or a default, which nobody names for this run.
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
