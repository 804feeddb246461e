"""What is used of Snakemake's jobs, scheduler and workflow, for which it declares no types."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol


class SnakemakeRule(Protocol):
    """What is read of a rule of Snakemake's."""

    name: str


class _SnakemakeFile(Protocol):
    """A file that a job of Snakemake's reads; its size is in bytes."""

    async def exists(self) -> bool: ...

    async def size(self) -> int: ...


class SnakemakeJob(Protocol):
    """What is read of a job of Snakemake's, and ``attempt``, which is set."""

    attempt: int
    jobid: int
    name: str
    rule: SnakemakeRule
    wildcards: object
    wildcards_dict: Mapping[str, object]
    shellcmd: str | None
    input: Iterable[_SnakemakeFile]
    output: Iterable[str]
    log: Iterable[str]
    restart_times: int
    resources: Mapping[str, object]
    scheduler_resources: Mapping[str, object]
    priority: int
    threads: int

    def is_group(self) -> bool: ...

    def register(self, external_jobid: str | None = None) -> None: ...


class SnakemakeJobInfo(Protocol):
    """A job that was submitted, as Snakemake's executors hand it on."""

    job: SnakemakeJob
    external_jobid: str | None
    aux: Mapping[str, Path] | None


class _Deployment(Protocol):
    deployment_method: Collection[object]


class _RemoteExecution(Protocol):
    seconds_between_status_checks: float


class NamingSettings(Protocol):
    """What Slurm's plugin is told of names of jobs, and of what is left of them."""

    jobname_prefix: str | None
    keep_successful_logs: bool


class SnakemakeScheduler(Protocol):
    """What is used of Snakemake's scheduler."""

    workflow: Workflow
    running: Collection[SnakemakeJob]
    _open_jobs: threading.Semaphore
    _input_sizes: dict[object, int | None]

    def submit_callback(self, job: SnakemakeJob) -> None: ...

    def error_callback(self, job: SnakemakeJob) -> None: ...

    def _schedule_reevalutation(self, delay: float) -> None: ...


class Workflow(Protocol):
    """Snakemake's workflow, as its executors and scheduler have it."""

    deployment_settings: _Deployment | None
    remote_execution_settings: _RemoteExecution
    executor_settings: NamingSettings
    scheduler: SnakemakeScheduler


if TYPE_CHECKING:

    class Executor:
        """What the executors have that ours are laid over, for the type checker."""

        wait: bool
        workflow: Workflow
        next_seconds_between_status_checks: float

        def __init__(self, *arguments: object, **options: object) -> None: ...

        def __post_init__(self, *arguments: object, **options: object) -> None: ...

        def shutdown(self) -> None: ...

        def run_job(self, job: SnakemakeJob) -> None: ...

        def get_job_args(self, job: SnakemakeJob, **options: object) -> str: ...

        def report_job_submission(self, job_info: SnakemakeJobInfo, **options: object) -> None: ...

        def report_job_success(self, job_info: SnakemakeJobInfo) -> None: ...

        def report_job_error(
            self, job_info: SnakemakeJobInfo, msg: str | None = None, **options: object
        ) -> None: ...

        def cancel_jobs(self, active_jobs: list[SnakemakeJobInfo]) -> None: ...

else:
    Executor = object


def job_scheduler() -> Any:
    """Return the class of Snakemake's scheduler, whose methods are replaced."""
    return importlib.import_module("snakemake.scheduling.job_scheduler").JobScheduler


def run_command_line() -> None:
    """Run Snakemake's command line, with the arguments of this process."""
    sys.argv[0] = "snakemake"
    importlib.import_module("snakemake.cli").main()
