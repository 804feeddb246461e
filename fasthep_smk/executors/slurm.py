"""Snakemake that loses no job of Slurm's: ``python -m fasthep_smk.executors.slurm``.

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

import importlib
import os
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fasthep_smk.executors.direct import Pace, command_of
from fasthep_smk.executors.fallback import number
from fasthep_smk.executors.job_events import Submitted
from fasthep_smk.executors.logger_plugin import problem, report
from fasthep_smk.executors.piloted import Piloted, lift_limits
from fasthep_smk.executors.read_as_text import (
    SBATCH_HEARD_NOTHING,
    SLURM_IS_SILENT,
    SRUN_IS_SILENT,
    said_by_sbatch,
)
from fasthep_smk.executors.refusals import refused
from fasthep_smk.executors.start import be_snakemake
from fasthep_smk.executors.submissions import Submissions, TakingOver, name_of, prepare_to_take_over
from fasthep_smk.executors.transfer_executor import Travelling
from fasthep_smk.flow import patches
from fasthep_smk.sites import slurm
from fasthep_smk.storage import failures
from fasthep_smk.util import files
from fasthep_smk.util.names import shell
from fasthep_smk.util.snakemake_types import (
    NamingSettings,
    SnakemakeJob,
    SnakemakeJobInfo,
)

__all__ = ["Executor", "main"]

#: For how long to try to submit a job, and how long to wait between two tries, in seconds.
_PATIENCE, _PAUSE = 1800, 5
#: How often a job is submitted again that could not begin.
_UNBEGUN = 5

plugin: Any = importlib.import_module("snakemake_executor_plugin_slurm")


class Executor(Piloted, Travelling, TakingOver, plugin.Executor):  # type: ignore[misc]
    """The plugin's executor; a job is under way until it is known to have ended."""

    def __init__(self, *arguments: object, **options: object) -> None:
        self._ended: set[str | None] = set()
        self._silent_since: float | None = None
        self._unbegun: Counter[int] = Counter()
        self._pace = Pace()
        self._forgotten = Forgotten()
        self._submissions = Submissions("slurm")
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

    def __post_init__(self, *arguments: object, **options: object) -> None:
        super().__post_init__(*arguments, **options)
        # The plugin (2.8) loses jobs while it waits for an array to be complete.
        self.array_jobs = set[str]()

    async def check_active_jobs(
        self, active_jobs: list[SnakemakeJobInfo]
    ) -> AsyncIterator[SnakemakeJobInfo]:
        """Yield the jobs that have not ended, also those whose states are not known now."""
        asked, leaving = self._queue.look(active_jobs)
        _asked_for[:] = {str(job.external_jobid).partition("_")[0] for job in asked}
        async for _ in super().check_active_jobs(asked):
            pass
        self._look_for_forgotten(asked)
        for job in [*leaving, *asked]:
            if job.external_jobid not in self._ended:
                yield job
        most = self.workflow.remote_execution_settings.seconds_between_status_checks
        self.next_seconds_between_status_checks = self._pace.seconds(most)

    def _report_job_submission_threadsafe(self, job_info: SnakemakeJobInfo) -> None:
        """Take a job as submitted, in the thread that has submitted it."""
        # A controller that has lost its state gives numbers again.
        self._ended.discard(job_info.external_jobid)
        logfile = (getattr(job_info, "aux", None) or {}).get("slurm_logfile", "")
        self._submissions.taken(str(job_info.external_jobid), logfile)
        super()._report_job_submission_threadsafe(job_info)

    def _report_job_error_threadsafe(self, job_info: SnakemakeJobInfo, msg: str) -> None:
        """Take a job as refused, unless it is unknown whether it was."""
        if not SBATCH_HEARD_NOTHING.search(said_by_sbatch(msg)):
            self._submissions.refused()
        super()._report_job_error_threadsafe(job_info, msg)

    def _report_taken_over(self, job_info: SnakemakeJobInfo) -> None:
        self._report_job_submission_threadsafe(job_info)

    def report_job_submission(self, job_info: SnakemakeJobInfo, **options: object) -> None:
        self._silent_since = None
        self._pace.moved()
        report(Submitted(str(job_info.external_jobid)))
        super().report_job_submission(job_info, **options)

    def report_job_success(self, job_info: SnakemakeJobInfo) -> None:
        self._ended.add(job_info.external_jobid)
        self._pace.moved()
        super().report_job_success(job_info)

    def report_job_error(
        self, job_info: SnakemakeJobInfo, msg: str | None = None, **options: object
    ) -> None:
        """Take a job as failed; one that could not be submitted now is submitted later.

        So is one whose Snakemake on the node could not start it, as Slurm did not answer there.
        Where sbatch has heard no answer, the job may be in the queue: that is looked up first.
        """
        is_silent = job_info.external_jobid is None and SLURM_IS_SILENT.search(msg or "")
        if is_silent and self._is_patient():
            later = threading.Timer(_PAUSE, self._submit_again, [job_info.job])
            later.daemon = True
            later.start()
            return
        if job_info.external_jobid is None and (said := said_by_sbatch(msg or "")):
            if SBATCH_HEARD_NOTHING.search(said) and self._is_patient():
                self._look_later(job_info.job)
                return
            msg = refused(job_info.job, said)
        self._ended.add(job_info.external_jobid)
        if self.wait and self._could_not_begin(job_info):
            self._begin_again(job_info, f"Slurm did not answer job {job_info.external_jobid}")
            return
        self._pace.moved()
        super().report_job_error(job_info, msg=msg, **options)

    def _look_for_forgotten(self, asked: list[SnakemakeJobInfo]) -> None:
        """Submit jobs again that Slurm does not know any more; those that are done have ended."""
        left = [
            job
            for job in asked
            if job.external_jobid not in self._ended and not _is_on_another_cluster(job.job)
        ]
        waiting = {str(job.external_jobid): job for job in left}
        for batch_id in self._forgotten.among(waiting):
            job_info = waiting[batch_id]
            if self._tracker is None and all(Path(path).exists() for path in job_info.job.output):
                self.report_job_success(job_info)
            elif self._unbegun[job_info.job.jobid] < _UNBEGUN:
                self._ended.add(batch_id)
                self._submissions.ended(batch_id)
                self._begin_again(job_info, f"Slurm does not know job {batch_id} any more")
            else:
                self.report_job_error(
                    job_info,
                    msg=f"Slurm has lost this job {_UNBEGUN + 1} times: {batch_id} is the last one",
                )

    def _begin_again(self, job_info: SnakemakeJobInfo, why: str) -> None:
        """Let a job that Slurm has lost be submitted again, at the same attempt."""
        self._unbegun[job_info.job.jobid] += 1
        problem(f"{why}: it is submitted again")
        self._hand_back(job_info.job)

    def _could_not_begin(self, job_info: SnakemakeJobInfo) -> bool:
        """Whether srun, in a batch job, has not reached the controller."""
        log = (job_info.aux or {}).get("slurm_logfile")
        if log is None or self._unbegun[job_info.job.jobid] >= _UNBEGUN:
            return False
        try:
            said = files.read_plain(log).decode(errors="replace")
        except OSError:
            return False
        if not SRUN_IS_SILENT.search(said):
            return False
        notes = failures.read_all(Path())
        return not any(note.batch_job == job_info.external_jobid for note in notes)

    def _is_patient(self) -> bool:
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = now
            problem("Slurm does not answer, trying again")
        return bool(self.wait) and now - self._silent_since < _PATIENCE


class Forgotten:
    """Jobs that are under way for us, and that Slurm did not know in two looks, a minute apart.

    Its controller may have lost them with its state. Or they have ended while this process slept,
    longer ago than Slurm tells, where it keeps no accounts.
    """

    def __init__(self, pause: float = 60.0) -> None:
        self._pause, self._looked_at = pause, time.monotonic()
        self._missed: set[str] = set()

    def among(self, batch_ids: Iterable[str]) -> set[str]:
        """Look again if it is time, and return the jobs that are forgotten."""
        if time.monotonic() - self._looked_at < self._pause:
            return set()
        self._looked_at = time.monotonic()
        if (missed := slurm.unlisted(batch_ids)) is None:
            return set()
        forgotten = set(filter(slurm.is_unknown, missed & self._missed))
        self._missed = missed - forgotten
        return forgotten


def _is_on_another_cluster(job: SnakemakeJob) -> bool:
    """Whether a job may be in the queue of a cluster that squeue here does not list.

    Source: sbatch(1), "--clusters" and "SBATCH_CLUSTERS".
    """
    return bool(job.resources.get("slurm_cluster") or os.environ.get("SBATCH_CLUSTERS"))


#: The jobs, by their numbers, whose states are asked for now.
_asked_for: list[str] = []


def _query_squeue(_run: str) -> str:
    """Return the command that asks for states: those of all jobs of the user's."""
    return shell(slurm.squeue("--format=%i|%T", "--states=all"))


def _by_number(query: Callable[[str], str]) -> Callable[[str], str]:
    """Return a query of sacct's for jobs by their numbers: each has a name of its own."""

    def ask(run: str) -> str:
        words = query(run).removesuffix(f" --name {run}")
        return f"{words} --jobs {','.join(_asked_for) or '0'}"

    return ask


def _prefixed(settings: NamingSettings, name: str) -> str:
    """Return a name as the site wants it."""
    return f"{settings.jobname_prefix}_{name}" if settings.jobname_prefix else name


def _named(submit: Callable[..., str]) -> Callable[..., str]:
    """Return the function that makes a job's command line, with a name that people understand."""

    def get_submit_command(
        job: SnakemakeJob,
        params: Mapping[str, object],
        *,
        settings: NamingSettings,
        **options: object,
    ) -> str:
        named = {**params, "run_uuid": _prefixed(settings, name_of(job))}
        return submit(job, named, settings=settings, **options)

    return get_submit_command


def main() -> None:
    """Run Snakemake's command line."""
    be_snakemake(_change, begin=_begin)


def _change() -> None:
    patches.SLURM.make(
        plugin,
        Executor=Executor,
        query_job_status_squeue=_query_squeue,
        query_job_status_sacct=_by_number(plugin.query_job_status_sacct),
    )
    patches.SLURM_NAMES.make(plugin, get_submit_command=_named(plugin.get_submit_command))


def _begin() -> None:
    prepare_to_take_over()
    lift_limits()


if __name__ == "__main__":
    main()
