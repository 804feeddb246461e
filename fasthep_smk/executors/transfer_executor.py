"""What Snakemake's executors have in common whose jobs are sent what they need."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from fasthep_smk.executors import fallback
from fasthep_smk.executors.logger_plugin import report
from fasthep_smk.storage import layout
from fasthep_smk.util.errors import SmkError
from fasthep_smk.util.masking import masked

if TYPE_CHECKING:
    from fasthep_smk.transfer.tracker import Tracker, Verdict
    from fasthep_smk.util.snakemake_types import SnakemakeJob, SnakemakeJobInfo, Workflow

    class _Executor:
        """What the executors have that this is laid over, for the type checker."""

        wait: bool
        workflow: Workflow
        next_seconds_between_status_checks: float

        def __init__(self, *arguments: object, **options: object) -> None: ...

        def _wait_thread(self) -> None: ...

        def __post_init__(self, *arguments: object, **options: object) -> None: ...

        def shutdown(self) -> None: ...

        def run_job(self, job: SnakemakeJob) -> None: ...

        def get_job_args(self, job: SnakemakeJob, **options: object) -> str: ...

        def report_job_submission(self, job_info: SnakemakeJobInfo, **options: object) -> None: ...

        def report_job_success(self, job_info: SnakemakeJobInfo) -> None: ...

        def report_job_error(
            self, job_info: SnakemakeJobInfo, msg: str | None = None, **options: object
        ) -> None: ...

else:
    _Executor = object

__all__ = ["Travelling"]

#: Seconds after which the end of a run is noticed.
_STEP = 0.1


class Travelling(_Executor):
    """To be laid over a plugin's executor: a job is done when all that it made is here.

    One that got lost is sent again, which is no failure of the job. Where jobs see this machine's
    files, ``_tracker`` is ``None``.
    """

    def __init__(self, *arguments: object, **options: object) -> None:
        self._is_set_up = threading.Event()
        super().__init__(*arguments, **options)
        self._is_set_up.set()

    def _wait_thread(self) -> None:
        """Look for ended jobs, but not before the executor is set up.

        Snakemake starts this thread first of all. An error in it ends it, and the run would wait
        for its jobs for ever.
        """
        self._is_set_up.wait()
        super()._wait_thread()

    async def sleep(self) -> None:
        """Wait until it is time for the next look at jobs, or until all is over.

        Snakemake waits at its end for this to return.
        """
        end = time.monotonic() + self.next_seconds_between_status_checks
        while self.wait and (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(left, _STEP))

    def __post_init__(self, *arguments: object, **options: object) -> None:
        self._tracker = _tracker(Path.cwd())
        self._queue = fallback.Queue(self._hand_back, report)
        super().__post_init__(*arguments, **options)

    def shutdown(self) -> None:
        """End; what started Snakemake may have been killed, and clears nothing away then."""
        super().shutdown()
        if self._tracker is not None:
            self._tracker.spool.forget_credentials()

    def run_job(self, job: SnakemakeJob) -> None:
        """Submit a job; what keeps it from being sent is its failure, not that of the run."""
        try:
            super().run_job(job)
        except (OSError, KeyError, ValueError, SmkError) as error:
            text = " ".join(masked(f"it could not be sent: {error}").split())
            super().report_job_error(SubmittedJobInfo(job=job), msg=text)

    def get_job_args(self, job: SnakemakeJob, **options: object) -> str:
        """Return the arguments of a Snakemake on the node; one in its fallback is told so."""
        with fallback.as_sent(job):
            return super().get_job_args(job, **options)

    def report_job_submission(self, job_info: SnakemakeJobInfo, **options: object) -> None:
        """Take a job as submitted."""
        self._queue.submitted(job_info)
        super().report_job_submission(job_info, **options)

    def report_job_success(self, job_info: SnakemakeJobInfo) -> None:
        if self._tracker is None:
            super().report_job_success(job_info)
        else:
            self._report(job_info, self._tracker.end(job_info.job))

    def report_job_error(
        self, job_info: SnakemakeJobInfo, msg: str | None = None, **options: object
    ) -> None:
        if self._tracker is None:
            super().report_job_error(job_info, msg=msg, **options)
            return
        if job_info.external_jobid is None:  # it was not queued: that is no matter of its files
            self._tracker.forget(job_info.job)
        self._report(job_info, self._tracker.end(job_info.job, msg or "failed"), **options)

    def _report(self, job_info: SnakemakeJobInfo, verdict: Verdict, **options: object) -> None:
        if verdict.what == "done":
            super().report_job_success(job_info)
        elif verdict.what == "again":
            print(verdict.message, flush=True)
            self._submit_again(job_info.job)
        else:
            job_info.job.attempt -= verdict.what == "later"  # as in _hand_back
            super().report_job_error(job_info, msg=verdict.message, **options)

    def _hand_back(self, job: SnakemakeJob) -> None:
        """Give a job that is not under way any more back to the scheduler, at the same attempt."""
        if self._tracker is not None:
            self._tracker.forget(job)
        job.attempt -= 1  # Snakemake counts the next one
        self.workflow.scheduler.error_callback(job)

    def _submit_again(self, job: SnakemakeJob) -> None:
        if self.wait:  # the run was not stopped
            self.run_job(job)


def _tracker(build: Path) -> Tracker | None:
    """Return the tracker of jobs, if they travel in this run."""
    if not (build / layout.TRANSFER).is_file():
        return None
    # Imported when needed: that takes as long as Snakemake's own start, and most runs send nothing.
    from fasthep_smk.transfer.tracker import Tracker

    return Tracker(build)
