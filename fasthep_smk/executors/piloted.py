"""What Snakemake's executors have in common whose jobs may be run by pilots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from fasthep_smk.executors.direct import command_of
from fasthep_smk.executors.fallback import number
from fasthep_smk.executors.job_events import Submitted
from fasthep_smk.executors.logger_plugin import problem, report
from fasthep_smk.storage import layout
from fasthep_smk.storage.pilots import read

if TYPE_CHECKING:
    from fasthep_smk.executors.fallback import Queue
    from fasthep_smk.executors.pilots import Ended, Pilots
    from fasthep_smk.executors.submissions import Submissions
    from fasthep_smk.transfer.tracker import SnakemakeJob, SnakemakeJobInfo

    class _Executor:
        """What the executors have that this is laid over, for the type checker."""

        workflow: Any
        _submissions: Submissions
        _queue: Queue

        def __post_init__(self, *arguments: object, **options: object) -> None: ...

        def cancel(self) -> None: ...

        def shutdown(self) -> None: ...

        def run_job(self, job: SnakemakeJob) -> None: ...

        def report_job_success(self, job_info: SnakemakeJobInfo) -> None: ...

        def report_job_error(
            self, job_info: SnakemakeJobInfo, msg: str | None = None, **options: object
        ) -> None: ...

else:
    _Executor = object

__all__ = ["Piloted"]


class Piloted(_Executor):
    """To be laid over an executor: jobs of some rules are not submitted, pilots run them."""

    def __post_init__(self, *arguments: object, **options: object) -> None:
        self._pilots: Pilots | None = None
        super().__post_init__(*arguments, **options)
        crews = read(Path.cwd())
        if crews is not None:
            # Imported when needed: most runs have none.
            from fasthep_smk.executors.pilots import Pilots

            self._pilots = Pilots(crews, told=self._note_pilot, say=problem)

    def _note_pilot(self, batch_id: str) -> None:
        """Note a pilot as a batch job of this run, which no later one takes over."""
        self._submissions.taken(batch_id)
        report(Submitted(batch_id))

    def cancel(self) -> None:
        if self._pilots is not None:
            self._pilots.end()
        super().cancel()

    def shutdown(self) -> None:
        if self._pilots is not None:
            self._pilots.end()
        super().shutdown()

    def run_job(self, job: SnakemakeJob) -> None:
        """Hand a job to a pilot; submit it where it is none of theirs."""
        left = self._submissions.is_left(job)  # by an earlier run, as a batch job of its own
        crew = None
        if self._pilots and not left:
            crew = self._pilots.crew_of(job.rule.name, number(job))
        command = command_of(job, self.workflow) if crew else None
        if crew is None or command is None:
            super().run_job(job)
            return
        assert self._pilots is not None
        info = SubmittedJobInfo(job=job)
        (log,) = job.log
        captured = Path(layout.CAPTURED[0], Path(log).relative_to(layout.LOGS)).absolute()

        def ended(how: Ended) -> None:
            if how.late:
                self._queue.move([info])
            elif how.status is None:
                self._submit(job)
            elif how.status == 0:
                super(Piloted, self).report_job_success(info)
            else:
                super(Piloted, self).report_job_error(info, msg=how.why or None)

        job.register()  # with the marks that Snakemake's executors make of a job under way
        self.workflow.scheduler.submit_callback(job)
        self._pilots.run(
            crew,
            f"{job.jobid}.{job.attempt}",
            command,
            captured,
            ended,
            patience=self._queue.patience(job),
        )

    def _submit(self, job: SnakemakeJob) -> None:
        """Submit a job from another thread than Snakemake's, where an error would go unheard."""
        try:
            self.run_job(job)  # it is none of a pilot's now
        except Exception as error:
            super().report_job_error(SubmittedJobInfo(job=job), msg=f"not submitted: {error}")
