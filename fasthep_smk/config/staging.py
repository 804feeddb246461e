"""``execution.staging``: whether jobs see this machine's files, or are sent what they need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from fasthep_smk.config.environment import Environment
from fasthep_smk.util.errors import Finding, not_among

__all__ = ["MODES", "Staging", "StagingSection", "read_staging", "staging_findings"]

MODES = ("shared", "transfer")
_CURRENT = ("shared-prefix", "current")
#: Slurm's plugin hands it to a shell, between quotes of its own.
_PLAIN = re.compile(r"/[A-Za-z0-9._/-]+")


class StagingSection(TypedDict, total=False):
    """What stands there, as the schema lets it pass."""

    mode: str | None
    shared: list[str] | None
    folder: str | None


@dataclass(frozen=True)
class Staging:
    """How files reach jobs. ``file`` is where the mode is said.

    ``shared`` are folders that jobs see under the same path all the same; ``folder`` is such a one
    for what they are sent, where the batch system itself sends nothing.
    """

    mode: str = "shared"
    shared: tuple[str, ...] = ()
    folder: str | None = None
    file: str = ""

    @property
    def transfers(self) -> bool:
        """Tell whether jobs are sent what they need."""
        return self.mode == "transfer"

    def sends(self, system: str) -> bool:
        """Tell whether jobs of a batch system are sent what they need; this machine's are not."""
        return self.transfers and system != "local"


def read_staging(
    said: Iterable[tuple[str, str, StagingSection | None]],
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
                section.get("folder") or staging.folder,
                file if section.get("mode") else staging.file,
            )
    return staging, findings


def staging_findings(
    staging: Staging, environment: Environment | None, system: str, *, refused: bool = False
) -> Iterator[Finding]:
    """Yield why jobs cannot be sent what they need, on a batch system.

    ``refused`` says that an environment was asked for, and is wrong: that is enough of it.
    """
    if not staging.sends(system):
        return
    if system == "slurm" and not staging.folder:
        yield Finding(
            file=staging.file,
            key="staging.folder",
            problem="is missing: Slurm sends no files",
            expected="a folder that this machine and all nodes see under the same path, for what "
            "jobs are sent and send back",
        )
    if refused:
        return
    if environment is None or (environment.type, environment.prefix) == _CURRENT:
        yield Finding(
            file=staging.file,
            key="staging.mode",
            problem="jobs that do not see this machine's files need an environment of their own",
            value="'transfer'",
            expected="environment: {type: packed-venv}, or a shared-prefix that workers have",
        )


def _findings(section: StagingSection, file: str, key: str) -> Iterator[Finding]:
    mode = section.get("mode")
    if mode is not None and mode not in MODES:
        yield not_among(mode, MODES, problem="no such mode", file=file, key=f"{key}.mode")
    folder = section.get("folder")
    if folder is not None and not _PLAIN.fullmatch(folder):
        yield Finding(
            file=file,
            key=f"{key}.folder",
            problem="is not a valid value",
            value=repr(folder),
            expected="the absolute path of a folder, of letters, digits and . _ - / only",
        )
    for folder in section.get("shared") or ():
        if not Path(folder).is_absolute():
            yield Finding(
                file=file,
                key=f"{key}.shared",
                problem="is not a valid value",
                value=repr(folder),
                expected="absolute paths of folders that workers see",
            )
