"""``execution.environment``: with which environment jobs are to run on workers."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypedDict

from fasthep_smk.util.errors import Finding, not_among

__all__ = [
    "PACKED",
    "TYPES",
    "Environment",
    "EnvironmentSection",
    "read_environment",
    "runtime_findings",
]

PACKED = ("packed-venv", "packed-conda", "packed-pixi")
TYPES = ("shared-prefix", *PACKED, "container")
#: The keys of each type. Of ``packed-pixi``, some name files of FAST-HEP's own backend.
_KEYS = {
    "shared-prefix": ("type", "prefix", "mode"),
    "packed-venv": ("type",),
    "packed-conda": ("type",),
    "packed-pixi": ("type", "mode", "source", "environment", "archive_path", "worker_env_dir"),
    "container": ("type", "image"),
}
#: What Snakemake hands to the container's runtime.
_IMAGE = re.compile(r"(docker|oras|library|shub)://[\w./:@+-]+|/[\w./:@+-]+")
#: Slurm's plugin hands a command to a shell between double quotes of its own.
_PREFIX = re.compile(r"current|/[^\"'$`\\\x00-\x1f]+")
_MODES = {"shared-prefix": ("shared",), "packed-pixi": ("self-extracting", "prefix")}


class EnvironmentSection(TypedDict, total=False):
    """What stands there, as the schema lets it pass."""

    type: str
    prefix: str | None
    mode: str | None
    source: str | None
    environment: str | None
    archive_path: str | None
    worker_env_dir: str | None
    image: str | None


@dataclass(frozen=True)
class Environment:
    """The environment of jobs. ``file`` is where it is asked for.

    ``prefix`` is a folder that all machines see, or ``current``: the one that runs this. ``image``
    is that of a container.
    """

    type: str
    prefix: str = "current"
    file: str = ""
    image: str | None = None

    @property
    def is_packed(self) -> bool:
        """Tell whether it is to travel with the jobs."""
        return self.type in PACKED


def read_environment(
    said: Iterable[tuple[str, str, EnvironmentSection | None]],
) -> tuple[Environment | None, list[Finding]]:
    """Return the environment that is asked for last, and what is wrong with any of them.

    ``said`` are files, the keys in them and what stands there, of the right shape. One replaces
    another as a whole: their keys depend on the type.
    """
    environment = None
    findings: list[Finding] = []
    for file, key, section in said:
        if not section:
            continue
        wrong = list(_findings(section, file, key))
        findings += wrong
        if not wrong:
            prefix = str(section.get("prefix") or "current").strip()
            environment = Environment(str(section["type"]), prefix, file, section.get("image"))
    return environment, findings


def runtime_findings(
    environment: Environment | None, system: str, *, transfers: bool
) -> Iterator[Finding]:
    """Yield why jobs of a batch system cannot run in the container that is asked for."""
    if environment is None or environment.type != "container":
        return
    where = {"file": environment.file, "key": "environment.type", "value": "'container'"}
    if system == "htcondor" and not transfers:
        yield Finding(
            problem="in a container, jobs of HTCondor do not see this machine's files",
            expected="staging: {mode: transfer}",
            **where,
        )
    elif system != "htcondor" and transfers and system != "local":
        yield Finding(
            problem=f"Snakemake starts containers of {system} where it sees its own files",
            expected="staging: {mode: shared}, or a packed environment",
            **where,
        )
    elif system != "htcondor" and not any(map(shutil.which, ("apptainer", "singularity"))):
        yield Finding(
            problem="there is no runtime for containers here",
            expected="apptainer, or singularity, in the PATH: Snakemake gets the image with it",
            **where,
        )


def _findings(section: EnvironmentSection, file: str, key: str) -> Iterator[Finding]:
    kind = section.get("type")
    where = f"{key}.type"
    if kind is None:
        yield Finding(file=file, key=where, problem="is missing", expected=", ".join(TYPES))
        return
    if kind not in TYPES:
        yield not_among(kind, TYPES, problem="no such environment", file=file, key=where)
        return
    for name in section:
        if name not in _KEYS[str(kind)]:
            yield Finding(
                file=file,
                key=f"{key}.{name}",
                problem=f"has no effect with {kind}",
                expected=", ".join(_KEYS[str(kind)]),
            )
    image = section.get("image")
    if kind == "container" and not _IMAGE.fullmatch(str(image or "")):
        yield Finding(
            file=file,
            key=f"{key}.image",
            problem="is missing" if image is None else "is not a valid value",
            value=None if image is None else repr(image),
            expected="an image: docker://NAME:TAG, oras://…, library://…, or the absolute path of "
            "a file or folder that workers see, without spaces",
        )
    modes = _MODES.get(str(kind), ())
    mode = section.get("mode")
    if mode is not None and modes and mode not in modes:
        yield not_among(mode, modes, problem="no such mode", file=file, key=f"{key}.mode")
    prefix = section.get("prefix")
    if prefix is not None and not _PREFIX.fullmatch(prefix.strip()):
        yield Finding(
            file=file,
            key=f"{key}.prefix",
            problem="is not a valid value",
            value=repr(prefix),
            expected="current, or the absolute path of an environment that all workers see; "
            "no quotes, $, ` or \\ in it",
        )
    source = section.get("source")
    if source is not None and source.strip() != "current":
        yield Finding(
            file=file,
            key=f"{key}.source",
            problem="is not a valid value",
            value=repr(source),
            expected="current: the environment in which fasthep-smk runs",
        )
