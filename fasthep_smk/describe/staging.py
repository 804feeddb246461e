"""``execution.staging``: whether jobs see this machine's files, or are sent what they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fasthep_smk.describe.environment import Environment
from fasthep_smk.errors import Finding, not_among

__all__ = ["MODES", "Staging", "read_staging", "staging_findings"]

MODES = ("shared", "transfer")


@dataclass(frozen=True)
class Staging:
    """How files reach jobs. ``file`` is where the mode is said.

    ``shared`` are folders that jobs see under the same path all the same.
    """

    mode: str = "shared"
    shared: tuple[str, ...] = ()
    file: str = ""

    @property
    def transfers(self) -> bool:
        """Tell whether jobs are sent what they need."""
        return self.mode == "transfer"


def read_staging(
    said: Iterable[tuple[str, str, Mapping[str, Any] | None]],
) -> tuple[Staging, list[Finding]]:
    """Return how files reach jobs, and what is wrong with what is said of it.

    ``said`` are files, the keys in them and what stands there; a later one wins, key by key.
    """
    staging = Staging()
    findings: list[Finding] = []
    for file, key, section in said:
        if not section:
            continue
        wrong = list(_findings(section, file, key))
        findings += wrong
        if not wrong:
            shared = section.get("shared")
            staging = Staging(
                str(section.get("mode") or staging.mode),
                staging.shared if shared is None else tuple(map(str, shared)),
                file if section.get("mode") else staging.file,
            )
    return staging, findings


def staging_findings(
    staging: Staging, environment: Environment | None, system: str
) -> Iterator[Finding]:
    """Yield why jobs cannot be sent what they need, on a batch system."""
    if not staging.transfers or system == "local":
        return
    if system != "htcondor":
        yield Finding(
            file=staging.file,
            key="staging.mode",
            problem=f"jobs of {system} cannot be sent their files yet",
            value="'transfer'",
            expected="shared, or HTCondor",
        )
    if environment is None or not (environment.is_packed or environment.prefix != "current"):
        yield Finding(
            file=staging.file,
            key="staging.mode",
            problem="jobs that do not see this machine's files need an environment of their own",
            value="'transfer'",
            expected="environment: {type: packed-venv}, or a shared-prefix that workers have",
        )


def _findings(section: Mapping[str, Any], file: str, key: str) -> Iterator[Finding]:
    mode = section.get("mode")
    if mode is not None and mode not in MODES:
        yield not_among(mode, MODES, problem="no such mode", file=file, key=f"{key}.mode")
    for folder in section.get("shared") or ():
        if not Path(folder).is_absolute():
            yield Finding(
                file=file,
                key=f"{key}.shared",
                problem="is not what belongs here",
                value=repr(folder),
                expected="absolute paths of folders that workers see",
            )
