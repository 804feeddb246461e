"""Any other executor of Snakemake's: what its plugin offers, and what Snakemake says of each job.

A package that knows more of one derives a class from :class:`Other`, and names it as an entry point
of the group ``fasthep_smk.sites``, by the name of the executor (``docs/own-site.md``).
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.config.requests import Attempt
from fasthep_smk.sites import Queued, System
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.executor_plugins import module_of
from fasthep_smk.util.yaml_values import as_yaml

if TYPE_CHECKING:
    from fasthep_smk.config.site import Site

#: Variables in which batch systems tell a job its number. The first that is there counts.
_NUMBERS = (
    "SLURM_JOB_ID", "LSB_JOBID", "PBS_JOBID", "FLUX_JOB_ID", "OAR_JOB_ID", "PANDAID", "JOB_ID",
)  # fmt: skip


class Other(System):
    """A batch system of which nothing is known but the name of its executor."""

    SNAKEMAKE = "fasthep_smk.executors.other"
    #: How the plugin writes its commands is not known: what would end one is refused.
    NOT_IN_FOLDERS = frozenset("$`\\\"'\n\r\0")
    NOT_IN_PROGRAMS = NOT_IN_FOLDERS | frozenset(" \t")
    LISTS_JOBS = False
    PLUGIN: str

    def __init__(self, name: str) -> None:
        self.name = name
        self.PLUGIN = module_of(name)

    def settings(self, _site: Site) -> Mapping[str, object]:
        """Return Snakemake's options for this executor."""
        return {
            "executor": self.name,
            "jobs": 500,
            "latency-wait": 60,
            "seconds-between-status-checks": 10,
        }

    def resources(self, attempt: Attempt) -> Mapping[str, object]:
        """Return resources of a job besides those that every Snakefile has."""
        options = attempt.options.get("executor", {})
        return {name: value for name, value in options.items() if value is not None}

    def problems(self, _attempts: Iterable[Attempt], site: Site) -> Iterable[Finding]:
        """Yield why jobs can never run: those of this executor do not see our files."""
        if "shared-fs-usage" in site.settings or "default-storage-provider" in site.settings:
            return
        if importlib.util.find_spec(self.PLUGIN) is None:  # which is said elsewhere
            return
        plugin = importlib.import_module(self.PLUGIN)
        if getattr(getattr(plugin, "common_settings", None), "implies_no_shared_fs", False):
            yield Finding(
                file=str(site.folder / "config.yaml") if site.folder else None,
                key="executor",
                problem="this executor's jobs do not see the files of this machine",
                value=as_yaml(self.name),
                expected="an executor whose jobs see the build folder; 'staging.mode: transfer' "
                "works only with Slurm and HTCondor",
                hint="if its jobs see the folder, add to this file: shared-fs-usage: [persistence, "
                "input-output, software-deployment, sources, source-cache]",
            )

    def notes(self) -> list[str]:
        """Return what a user should know of a run with this executor, said once."""
        note = (
            f"executor {self.name!r} is not one that fasthep-smk knows: its Snakemake plugin gets "
            "threads, mem_mb, disk_mb, runtime and gpu of each job, and config.executor of its "
            "pool."
        )
        if not self.LISTS_JOBS:
            note += (
                " fasthep-smk does not say why its jobs wait, and does not take over jobs that a "
                "killed run leaves in the queue."
            )
        return [note]

    def queued(self, _folder: Path) -> list[Queued] | None:
        """Return jobs in the queue that were submitted from a folder; ``None``: not known."""
        return None

    def batch_job(self) -> str | None:
        """Return the number of the batch job that this process runs in, if it is told one."""
        return next((os.environ[name] for name in _NUMBERS if os.environ.get(name)), None)
