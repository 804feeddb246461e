"""What Snakemake's executors have in common whose jobs are sent what they need."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from fasthep_smk.storage import layout
from fasthep_smk.util.errors import SmkError
from fasthep_smk.util.masking import masked

if TYPE_CHECKING:
    from fasthep_smk.transfer.tracker import Tracker, Verdict

__all__ = ["Travelling"]


class Travelling:
    """To be laid over a plugin's executor: a job is done when all that it made is here.

    One that got lost is sent again, which is no failure of the job. Where jobs see this machine's
    files, ``_tracker`` is ``None``.
    """

    def __post_init__(self, *arguments: Any, **options: Any) -> None:
        self._tracker = _tracker(Path.cwd())
        super().__post_init__(*arguments, **options)  # type: ignore[misc]

    def shutdown(self) -> None:
        """End; what started Snakemake may have been killed, and clears nothing away then."""
        above: Any = super()
        above.shutdown()
        if self._tracker is not None:
            self._tracker.spool.forget_credentials()

    def run_job(self, job: Any) -> None:
        """Submit a job; what keeps it from being sent is its failure, not that of the run."""
        above: Any = super()
        try:
            above.run_job(job)
        except (OSError, KeyError, ValueError, SmkError) as error:
            text = " ".join(masked(f"it could not be sent: {error}").split())
            above.report_job_error(SubmittedJobInfo(job=job), msg=text)

    def report_job_success(self, job_info: Any) -> None:
        if self._tracker is None:
            above: Any = super()
            above.report_job_success(job_info)
        else:
            self._report(job_info, self._tracker.end(job_info.job))

    def report_job_error(self, job_info: Any, msg: str | None = None, **options: Any) -> None:
        if self._tracker is None:
            above: Any = super()
            above.report_job_error(job_info, msg=msg, **options)
            return
        if job_info.external_jobid is None:  # it was not queued: that is no matter of its files
            self._tracker.forget(job_info.job)
        self._report(job_info, self._tracker.end(job_info.job, msg or "failed"), **options)

    def _report(self, job_info: Any, verdict: Verdict, **options: Any) -> None:
        above: Any = super()
        if verdict.what == "done":
            above.report_job_success(job_info)
        elif verdict.what == "again":
            print(verdict.message, flush=True)
            self._submit_again(job_info.job)
        else:
            job_info.job.attempt -= verdict.what == "later"  # Snakemake counts the next one
            above.report_job_error(job_info, msg=verdict.message, **options)

    def _submit_again(self, job: Any) -> None:
        executor: Any = self
        if executor.wait:  # nobody has stopped the run
            executor.run_job(job)


def _tracker(build: Path) -> Tracker | None:
    """Return the tracker of jobs, if they travel in this run."""
    if not (build / layout.TRANSFER).is_file():
        return None
    # Imported when needed: that takes as long as Snakemake's own start, and most runs send nothing.
    from fasthep_smk.transfer.tracker import Tracker

    return Tracker(build)
