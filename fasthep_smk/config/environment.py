"""``execution.environment``: with which environment jobs are to run on workers."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fasthep_smk.config.layers import Layer
from fasthep_smk.util.errors import Finding

PACKED = ("packed-venv", "packed-conda", "packed-pixi")


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
        """Whether it is to travel with the jobs."""
        return self.type in PACKED


def read_environment(layers: Iterable[Layer]) -> Environment | None:
    """Return the environment that is asked for last.

    One replaces another as a whole: their keys depend on the type.
    """
    said = [(layer.file, layer.content.get("environment")) for layer in layers]
    file, section = next((pair for pair in reversed(said) if pair[1]), ("", None))
    if section is None:
        return None
    prefix = str(section.get("prefix") or "current").strip()
    return Environment(section["type"], prefix, file, section.get("image"))


def runtime_findings(
    environment: Environment | None, system: str, *, transfers: bool
) -> Iterator[Finding]:
    """Yield why jobs of a batch system cannot run in the container that is asked for."""
    if environment is None or environment.type != "container":
        return
    where = {"file": environment.file, "key": "environment.type", "value": "'container'"}
    if system == "htcondor" and not transfers:
        yield Finding(
            problem="HTCondor's jobs in a container do not see the files of this machine",
            expected="staging: {mode: transfer}",
            **where,
        )
    elif system != "htcondor" and transfers and system != "local":
        yield Finding(
            problem=f"on {system}, jobs in a container must see the files of this machine",
            expected="staging: {mode: shared}, or a packed environment",
            **where,
        )
    elif system != "htcondor" and not any(map(shutil.which, ("apptainer", "singularity"))):
        yield Finding(
            problem="this machine has no program that runs containers",
            expected="apptainer or singularity in the PATH, for Snakemake to download the image",
            **where,
        )
