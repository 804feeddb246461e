"""An executor of Snakemake's whose jobs pilots run."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from fasthep_smk.contrib.pilots.pilots import Ended, Pilots
from fasthep_smk.executors import scheduler
from fasthep_smk.executors.direct import command_of
from fasthep_smk.executors.fallback import number
from fasthep_smk.executors.job_events import Submitted
from fasthep_smk.executors.reporting import problem, report
from fasthep_smk.storage import failures, layout
from fasthep_smk.storage.pilots import read
from fasthep_smk.util.snakemake_types import SnakemakeJob

if TYPE_CHECKING:
    from fasthep_smk.contrib.pilots.losses import Lost
    from fasthep_smk.executors.batch_executor import BatchExecutor

    class _Executor(BatchExecutor):
        """What the executors have that this is laid over, for the type checker."""

        def cancel(self) -> None: ...

else:
    _Executor = object


def piloted(executor: type) -> type:
    """Return an executor of ours with pilots laid over it; Snakemake asks how many jobs they take.

    ``pilots.json`` of this folder says which jobs are theirs.
    """
    scheduler.set_limits.append(_set_limits)
    return type("Executor", (Piloted, executor), {})


class Piloted(_Executor):
    """To be laid over an executor: jobs of some rules are not submitted, pilots run them."""

    def __post_init__(self, *arguments: object, **options: object) -> None:
        self._crews, self._lifted = read(Path.cwd()), set[str]()
        self._pilots = Pilots(self._crews, told=self._note_pilot, say=problem)
        super().__post_init__(*arguments, **options)
        _all.append(self)

    def _note_pilot(self, batch_id: str, pool: str) -> None:
        self._submissions.taken(batch_id, pilot=pool)
        report(Submitted(batch_id))

    def set_limits(self, limits: dict[str, int]) -> None:
        """Let more jobs wait for pilots: there are as many of these as the pool has workers.

        Where there are no pilots any more, jobs are again as many at a time. ``limits`` are
        what the scheduler has for all jobs together.
        """
        wanted = {self._crews.tokens[pool] for pool in self._pilots.whole_pools()} & limits.keys()
        for token in wanted ^ self._lifted:
            sizes = [
                crew.most * crew.tasks
                for crew in self._crews.by_name.values()
                if self._crews.tokens.get(crew.attempt.pool) == token
            ]
            # Not as many as there are: the pools share what Snakemake may have under way.
            waiting = 2 * max(sizes, default=0)
            limits[token] += waiting if token in wanted else -waiting
        self._lifted = wanted

    def cancel(self) -> None:
        self._pilots.end()
        super().cancel()

    def shutdown(self) -> None:
        self._pilots.end()
        super().shutdown()

    def run_job(self, job: SnakemakeJob) -> None:
        """Hand a job to a pilot, submit it where it is none of theirs, or take it as failed.

        An error would go unheard in the threads of plugins, and end the run in Snakemake's.
        """
        try:
            self._hand_out(job)
        except Exception as error:
            self.report_job_error(SubmittedJobInfo(job=job), msg=failures.one_line(error))

    def _hand_out(self, job: SnakemakeJob) -> None:
        left = self._submissions.is_left(job)  # by an earlier run, as a batch job of its own
        alone = left or job.is_group()
        crew = None if alone else self._pilots.crew_of(job.rule.name, number(job))
        command = command_of(job, self.workflow) if crew else None
        if crew is None or command is None:
            super().run_job(job)
            return
        info = SubmittedJobInfo(job=job)
        (log,) = job.log
        captured = Path(layout.CAPTURED[0], Path(log).relative_to(layout.LOGS)).absolute()

        def ended(how: Ended) -> None:
            if how.late:
                self._queue.move([info])
            elif how.status is None:
                self._hand_back(job)  # it is none of a pilot's now
            elif how.status == 0:
                super(Piloted, self).report_job_success(info)
            else:
                why = how.why
                if how.lost:
                    with contextlib.suppress(OSError):  # the disk is full, for example
                        why = _note_loss(job, how.lost)
                super(Piloted, self).report_job_error(info, msg=why or None)

        job.register()  # with the marks that Snakemake's executors make of a job under way
        self.workflow.scheduler.submit_callback(job)
        key, patience = f"{job.jobid}.{job.attempt}", self._queue.patience(job)
        self._pilots.run(crew, key, command, captured, ended, patience=patience)


def _note_loss(job: SnakemakeJob, lost: Lost) -> str:
    """Return what a job died of that has lost its pilots, and say so in the notes it has left.

    Where all have come to the end of their time, this was the last attempt: others have no more.
    """
    if lost.fix:
        job.attempt = job.restart_times + 1
    place, why = layout.place_of_log(str(next(iter(job.log), ""))), lost.why
    for note in failures.read_all(Path()):
        if place in ((note.rule, note.key), (note.rule, note.bundle)) and note.kind == "killed":
            updated = failures.without_pilot(note, lost.why, lost.said, lost.fix)
            failures.note(Path(), updated)
            why = updated.problem
    return why


#: The executor of this process, if it has pilots.
_all: list[Piloted] = []


def _set_limits(limits: dict[str, int]) -> None:
    for executor in _all:
        executor.set_limits(limits)
