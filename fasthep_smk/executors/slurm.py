"""Snakemake that loses no job of Slurm's. ``run/snakemake_process.py`` starts it.

When Slurm's controller does not answer for half a minute, Snakemake's plugin (2.8) forgets all jobs
under way and waits for ever; a job that cannot be submitted then uses up its attempts. And the
plugin asks for states less and less often, every three minutes in the end, whatever
``seconds-between-status-checks`` says; a run that fails or is stopped takes as long to end. A job
that Slurm does not know any more, the plugin waits for without an end.

Jobs that see no file of this machine but those in a spool (``staging.mode: transfer``) find a
parcel there, and leave one. One that got lost or was damaged is sent again; that is no failure of
the job.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from pathlib import Path
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from fasthep_smk.executors.batch_executor import BatchExecutor, Forgotten
from fasthep_smk.executors.direct import command_of
from fasthep_smk.executors.fallback import number
from fasthep_smk.executors.read_as_text import (
    IS_UNCLEAR,
    NO_NUMBER,
    said_by_sbatch,
)
from fasthep_smk.executors.start import be_snakemake
from fasthep_smk.executors.submissions import name_of
from fasthep_smk.flow import patches
from fasthep_smk.sites import BatchState, slurm
from fasthep_smk.storage import failures
from fasthep_smk.util import files
from fasthep_smk.util.names import shell
from fasthep_smk.util.snakemake_types import (
    NamingSettings,
    SnakemakeJob,
    SnakemakeJobInfo,
)

plugin: Any = importlib.import_module("snakemake_executor_plugin_slurm")


class SlurmExecutor(BatchExecutor, plugin.Executor):  # type: ignore[misc]
    """The plugin's executor; a job is under way until it is known to have ended."""

    _system = "slurm"

    def __init__(self, *arguments: object, **options: object) -> None:
        self._naming = threading.local()
        self._forgotten = Forgotten(slurm.is_unknown)
        super().__init__(*arguments, **options)

    def format_job_exec(self, job: SnakemakeJob) -> str:
        """Return the command of a job."""
        if self._tracker is None:
            command = command_of(job, self.workflow)
            return shell(command) if command else str(super().format_job_exec(job))
        sending = self._tracker.leave(job)
        spool, attempt = self._tracker.spool, number(job)
        return shell(spool.command(sending, attempt=attempt, threads=job.threads))

    def _name(self, job: SnakemakeJob) -> str:
        return _prefixed(self.workflow.executor_settings, name_of(job))

    @property
    def run_uuid(self) -> str:
        """What the plugin calls the jobs of this run: here, the job that this thread submits."""
        return getattr(self._naming, "name", self._run)

    @run_uuid.setter
    def run_uuid(self, run: str) -> None:
        self._run = run

    def run_job(self, job: SnakemakeJob) -> None:
        """Take a job over, or submit it under a name that people understand."""
        self._naming.name = self._name(job)
        super().run_job(job)

    def __post_init__(self, *arguments: object, **options: object) -> None:
        super().__post_init__(*arguments, **options)
        # The plugin (2.8) loses jobs while it waits for an array to be complete.
        self.array_jobs = set[str]()

    def _states(self, jobs: list[SnakemakeJobInfo]) -> dict[int, BatchState]:
        """Return what is known now of jobs, each asked for in the cluster that it went to."""
        clusters: dict[object, list[SnakemakeJobInfo]] = {}
        for job in jobs:
            clusters.setdefault(_cluster_of(job.job), []).append(job)
        by_job: dict[int, BatchState] = {}
        for cluster, of_cluster in clusters.items():
            ids = [str(job.external_jobid) for job in of_cluster]
            states = slurm.status(ids, Path.cwd(), cluster=cluster)
            by_job |= {
                id(job): states[batch_id]
                for job, batch_id in zip(of_cluster, ids, strict=True)
                if batch_id in states
            }
        failed = (state for state in by_job.values() if state.said.startswith("Slurm: NODE_FAIL"))
        self._failed_nodes.update(state.node for state in failed if state.node)
        return by_job

    def _report_failed(self, job_info: SnakemakeJobInfo, state: BatchState) -> None:
        log = _log_of(job_info)
        self.report_job_error(job_info, msg=state.said, aux_logs=[str(log)] if log else [])

    def report_job_success(self, job_info: SnakemakeJobInfo) -> None:
        """Take a job as done, and remove what Slurm has captured of it, as the plugin does."""
        if (log := _log_of(job_info)) and not self.workflow.executor_settings.keep_successful_logs:
            with contextlib.suppress(OSError):
                log.unlink()
        super().report_job_success(job_info)

    def _report_job_submission_threadsafe(self, job_info: SnakemakeJobInfo) -> None:
        """Take a job as submitted, in the thread that has submitted it."""
        logfile = (getattr(job_info, "aux", None) or {}).get("slurm_logfile", "")
        self._submissions.taken(str(job_info.external_jobid), logfile)
        super()._report_job_submission_threadsafe(job_info)

    def _report_job_error_threadsafe(self, job_info: SnakemakeJobInfo, msg: str) -> None:
        """Take a job as refused, unless it is unknown whether it was."""
        if not (IS_UNCLEAR.search(msg) or slurm.Slurm.NO_WORD.search(said_by_sbatch(msg))):
            self._submissions.refused()
        super()._report_job_error_threadsafe(job_info, msg)

    def _report_taken_over(self, job_info: SnakemakeJobInfo) -> None:
        self._report_job_submission_threadsafe(job_info)

    def _info(self, job: SnakemakeJob, batch_id: str, captured: str = "") -> SubmittedJobInfo:
        paths = [captured] if captured else self.slurm_logdir.rglob(f"{batch_id}.log")
        return super()._info(job, batch_id, str(next(iter(paths), "")))

    def report_job_error(
        self, job_info: SnakemakeJobInfo, msg: str | None = None, **options: object
    ) -> None:
        """Take a job as failed; one that could not be submitted now is submitted later.

        So is one whose Snakemake on the node could not start it, as Slurm did not answer there.
        """
        unclear = IS_UNCLEAR.search(msg or "") is not None
        message = said_by_sbatch(msg or "") or "sbatch does not say why" * unclear
        if job_info.external_jobid is None and message:
            msg = self._not_taken(job_info.job, message, unclear=unclear)
            if msg is None:
                return
        if self.wait and self._could_not_begin(job_info):
            self._lost(job_info, f"Slurm did not answer srun in job {job_info.external_jobid}")
            return
        super().report_job_error(job_info, msg=msg, **options)

    def _could_not_begin(self, job_info: SnakemakeJobInfo) -> bool:
        """Whether srun, in a batch job, has not reached the controller."""
        log = (job_info.aux or {}).get("slurm_logfile")
        if log is None:
            return False
        try:
            text = files.read_plain(log).decode(errors="replace")
        except OSError:
            return False
        if not slurm.Slurm.SRUN_IS_SILENT.search(text):
            return False
        notes = failures.read_all(Path())
        return not any(note.batch_job == job_info.external_jobid for note in notes)


def _cluster_of(job: SnakemakeJob) -> object:
    """Return the cluster that a job was submitted to; nothing, if it is the one here.

    Source: sbatch(1), "--clusters" and "SBATCH_CLUSTERS".
    """
    return job.resources.get("slurm_cluster") or os.environ.get("SBATCH_CLUSTERS")


def _log_of(job: SnakemakeJobInfo) -> Path | None:
    log = (job.aux or {}).get("slurm_logfile")
    return log if log and log.name else None


def _number(_first: str, printed: str) -> str:
    """Return the number of a job in what sbatch has printed."""
    if (batch_id := slurm.number_in(printed)) is None:
        raise WorkflowError(f"{NO_NUMBER}: {' '.join(printed.split())}")
    return batch_id


def _prefixed(settings: NamingSettings, name: str) -> str:
    """Return a name as the site wants it."""
    return f"{settings.jobname_prefix}_{name}" if settings.jobname_prefix else name


def main() -> None:
    """Run Snakemake's command line."""
    patches.SLURM.make(plugin, validate_or_get_slurm_job_id=_number)
    be_snakemake(plugin, SlurmExecutor)


if __name__ == "__main__":
    main()
