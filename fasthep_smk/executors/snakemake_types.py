"""What is used of Snakemake's scheduler and workflow, for which it declares no types of its own."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from fasthep_smk.transfer.tracker import SnakemakeJob

__all__ = ["NamingSettings", "Scheduler", "Workflow", "job_scheduler", "run_command_line"]


class _Deployment(Protocol):
    @property
    def deployment_method(self) -> Collection[object]: ...


class _RemoteExecution(Protocol):
    @property
    def seconds_between_status_checks(self) -> float: ...


class NamingSettings(Protocol):
    """What Slurm's plugin is told of names of jobs."""

    @property
    def jobname_prefix(self) -> str | None: ...


class Scheduler(Protocol):
    """Snakemake's scheduler. ``resources`` are what there is of each, for all jobs together."""

    @property
    def workflow(self) -> Workflow: ...

    @property
    def resources(self) -> dict[str, int]: ...

    @property
    def running(self) -> Collection[SnakemakeJob]: ...

    def submit_callback(self, job: SnakemakeJob) -> None: ...

    def error_callback(self, job: SnakemakeJob) -> None: ...

    @property
    def _open_jobs(self) -> threading.Semaphore: ...

    @property
    def _input_sizes(self) -> dict[object, int | None]: ...

    def _schedule_reevalutation(self, delay: float) -> None: ...


class Workflow(Protocol):
    """Snakemake's workflow, as its executors and scheduler have it."""

    @property
    def deployment_settings(self) -> _Deployment | None: ...

    @property
    def remote_execution_settings(self) -> _RemoteExecution: ...

    @property
    def executor_settings(self) -> NamingSettings: ...

    @property
    def scheduler(self) -> Scheduler: ...


def job_scheduler() -> Any:
    """Return the class of Snakemake's scheduler, whose methods are replaced."""
    return importlib.import_module("snakemake.scheduling.job_scheduler").JobScheduler


def run_command_line() -> None:
    """Run Snakemake's command line, with the arguments of this process."""
    sys.argv[0] = "snakemake"
    importlib.import_module("snakemake.cli").main()
