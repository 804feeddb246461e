"""What differs between releases of Snakemake, in one place.

Up to 9 it provides the software of jobs by a method with a name, ``conda`` or ``apptainer``, to
which ``conda:`` and ``container:`` of a rule belong. From 10 on plugins decide what these mean
(https://github.com/snakemake/snakemake/pull/3339): what we write for 9 would be another thing
there, or nothing, and jobs would run without their container. Until we can write it for 10, rules
name no environment there, and what needs one is refused.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

from fasthep_smk.config.environment import Environment
from fasthep_smk.config.site import Site
from fasthep_smk.flow import patches
from fasthep_smk.flow.patches import Patch
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.names import shell

__all__ = ["container_settings", "findings", "is_by_plugins"]

#: The first release of Snakemake in which plugins provide the software of jobs.
_PLUGINS = 10
#: How a site's options begin that choose or change a method.
_OPTIONS = ("software-deployment", "use-", "sdm", "conda-", "apptainer-", "singularity-")
_BACK = "pip install 'snakemake<10'"


def is_by_plugins() -> bool:
    """Whether plugins decide what ``conda:`` and ``container:`` of a rule mean."""
    major = metadata.version("snakemake").partition(".")[0]
    return major.isdecimal() and int(major) >= _PLUGINS


def findings(environment: Environment | None, site: Site) -> Iterator[Finding]:
    """Yield what would mean another thing with the installed Snakemake."""
    if not is_by_plugins():
        return
    found = f"Snakemake {metadata.version('snakemake')}"
    if absent := _absent():
        yield Finding(
            problem=f"this Snakemake cannot be used: {found} has no {absent[0]}",
            expected="Snakemake 9, of which fasthep-smk changes that while it runs",
            hint=_BACK,
        )
    if environment is not None and environment.image and site.system != "htcondor":
        yield Finding(
            file=environment.file,
            key="environment.type",
            problem=f"containers cannot be used with this Snakemake: {found}",
            value="'container'",
            expected="Snakemake 9: from 10 on its plugins decide what a container is",
            hint=_BACK,
        )
    for name in site.settings:
        if str(name).replace("_", "-").startswith(_OPTIONS):
            yield Finding(
                file=str(site.folder / "config.yaml") if site.folder else None,
                key=str(name),
                problem=f"has another meaning with this Snakemake: {found}",
                expected="Snakemake 9: from 10 on its plugins provide the software of jobs",
                hint=f"leave it out, or {_BACK}",
            )


def container_settings(seen: Iterable[Path], settings: Mapping[str, object]) -> dict[str, object]:
    """Return Snakemake's options by which it runs jobs in a container.

    ``seen`` are folders that jobs see there; ``settings`` are the options so far.
    """
    binds = [word for path in dict.fromkeys(seen) for word in ("--bind", str(path))]
    options = str(settings.get("apptainer-args") or "")
    return {
        "software-deployment-method": ["apptainer"],
        "apptainer-args": " ".join(filter(None, [shell(binds), options])),
    }


def _absent() -> list[str]:
    """Return what of Snakemake is changed while it runs, and is not there."""
    importlib.import_module("snakemake.cli")  # the modules below it import each other
    register = [one for one in vars(patches).values() if isinstance(one, Patch)]
    names = [name for one in register for name in one.replaces if name.startswith("snakemake.")]
    return [name for name in names if not _is_there(name)]


def _is_there(name: str) -> bool:
    module, _, attributes = name.partition(":")
    try:
        owner: object = importlib.import_module(module)
        for attribute in attributes.split("."):
            owner = getattr(owner, attribute)
    except (ImportError, AttributeError):
        return False
    return True
