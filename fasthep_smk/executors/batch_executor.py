"""What is laid over the executor of a plugin for a batch system, whichever that is.

A job is submitted, unless an earlier run has left it in the queue, and noted. It is done when all
that it made is here; one that got lost is submitted again, which is no failure of the job.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from fasthep_smk import sites
from fasthep_smk.executors import fallback
from fasthep_smk.executors.direct import is_alone
from fasthep_smk.executors.job_events import Submitted
from fasthep_smk.executors.read_as_text import BEFORE_HTCONDOR, MAY_PASS, NO_ROOM, REFUSED
from fasthep_smk.executors.reporting import problem, report
from fasthep_smk.executors.retries import Retries
from fasthep_smk.executors.submissions import Submissions, name_of
from fasthep_smk.sites import BatchState
from fasthep_smk.storage import layout
from fasthep_smk.util.errors import SmkError
from fasthep_smk.util.masking import masked
from fasthep_smk.util.snakemake_types import Executor, SnakemakeJob, SnakemakeJobInfo

if TYPE_CHECKING:
    from fasthep_smk.transfer.tracker import Tracker, TravelVerdict

#: Seconds until the queue is looked at for a job whose submission had no answer.
_LOOK = 5.0
#: For how long to try to submit a job where nobody answers, and how long to wait between two tries;
#: after how long it is looked whether there is room for more jobs; in seconds.
_PATIENCE, _PAUSE, _ROOM = 1800, 5.0, 30.0
#: After how many seconds without an answer on the states of jobs the user is told.
_SILENT = 20.0
#: Seconds after which the end of a run is noticed.
_STEP = 0.1
#: Seconds between two looks at the states of jobs: at least, and as a part of the time since a job
#: was submitted or has ended.
_LEAST, _PART = 2.0, 0.25
#: Of a job of which nothing is known now.
_ALIVE = BatchState("alive")


class BatchExecutor(Executor):
    """To be laid over a plugin's executor for the batch system ``_system``.

    Where jobs see this machine's files, ``_tracker`` is ``None``; others travel.
    """

    _system: str

    def __init__(self, *arguments: object, **options: object) -> None:
        self._is_set_up = threading.Event()
        self._moved_at = time.monotonic()
        self._submissions = Submissions(self._system)
        self._silent_since: float | None = None
        self._unheard_since: float | None = None
        #: Jobs that the batch system has no room for, and when one is tried again.
        self._crowded: deque[SnakemakeJob] = deque()
        self._room_at = 0.0
        self._told: set[str] = set()
        super().__init__(*arguments, **options)
        self._is_set_up.set()

    async def sleep(self) -> None:
        """Wait until it is time for the next look at jobs, or until all is over.

        Snakemake waits at its end for this to return.
        """
        end = time.monotonic() + self.next_seconds_between_status_checks
        while self.wait and (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(left, _STEP))

    def __post_init__(self, *arguments: object, **options: object) -> None:
        self._tracker = _tracker(Path.cwd())
        self._queue = fallback.WaitingJobs(self._hand_back, report)
        self._retries = Retries(self.workflow)
        super().__post_init__(*arguments, **options)

    def shutdown(self) -> None:
        """End; what started Snakemake may have been killed, and clears nothing away then."""
        super().shutdown()
        if self._tracker is not None:
            self._tracker.spool.forget_credentials()

    # --- submitting -------------------------------------------------------------------------------

    def run_job(self, job: SnakemakeJob) -> None:
        """Take a job over, or submit it; what keeps it from that is its failure, not the run's."""
        try:
            self._take_over_or_submit(job)
        except (OSError, KeyError, ValueError, SmkError) as error:
            text = " ".join(masked(f"the job could not be sent: {error}").split())
            self._failed(SubmittedJobInfo(job=job), text)

    def _take_over_or_submit(self, job: SnakemakeJob) -> None:
        earlier = self._submissions.take_over(job)
        if earlier is None:
            alone = self._tracker is None and is_alone(job, self.workflow)
            with self._submissions.submitting(job, self._name(job), alone=alone):
                self._hand_over(job)
            return
        submission, goes_on = earlier
        info = self._info(job, submission.batch_id, submission.captured)
        if goes_on:
            self._report_taken_over(info)
        else:
            self.report_job_success(info)

    def _info(self, job: SnakemakeJob, batch_id: str, captured: str = "") -> SubmittedJobInfo:
        aux = {"slurm_logfile": Path(captured)}
        return SubmittedJobInfo(job, external_jobid=self._number(batch_id), aux=aux)

    def _hand_over(self, job: SnakemakeJob) -> None:
        """Submit a job; that it is refused is its failure, not that of the run."""
        try:
            super().run_job(self._as_submitted(job))
        except Exception as error:
            message = BEFORE_HTCONDOR.sub("", masked(str(error)))
            system = sites.system(self._system)
            if not (isinstance(error, WorkflowError) or system.NO_ANSWER.search(message)):
                raise
            if not system.NO_WORD.search(message):
                self._submissions.refused()
            if why := self._not_taken(job, message):
                self.report_job_error(SubmittedJobInfo(job), msg=why)

    def _not_taken(self, job: SnakemakeJob, message: str, *, unclear: bool = False) -> str | None:
        """Return what to report of a job that was not taken, by what the batch system says of it.

        Nothing, where it is submitted again at the same attempt: the batch system does not answer,
        or has no room now, or it is looked up whether the job has arrived. Or it goes to its
        fallback. ``unclear``: it may have arrived, and was refused if it has not.
        """
        system = sites.system(self._system)
        if not self.wait:
            return _refused(message)
        if unclear:
            self._look_later(job, message)
        elif system.NO_ANSWER.search(message) and self._is_patient(message):
            self._later(_PAUSE, lambda: self._submit_again(job))
        elif system.NO_WORD.search(message) and self._is_patient(message):
            self._look_later(job)
        elif NO_ROOM.search(message):
            self._wait_for_room(job, message)
        elif MAY_PASS.search(message) or not (pools := self._queue.leave(job)):
            return _refused(message)
        else:
            self._tell(
                "pool {!r} accepts no jobs, they go to pool {!r}".format(*pools), f": {message}"
            )
        return None

    def _is_patient(self, message: str) -> bool:
        """Whether a batch system that does not answer is waited for: for half an hour."""
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = now
            title = sites.title(self._system)
            problem(f"{title} does not answer, trying again: {' '.join(message.split())}")
        return now - self._silent_since < _PATIENCE

    def _wait_for_room(self, job: SnakemakeJob, message: str) -> None:
        """Let a job wait until the batch system takes more of this user's."""
        title = sites.title(self._system)
        text = f"{title} accepts no more jobs now: the others wait"
        if text not in self._told:
            queued = self._submissions.system.queued(Path.cwd())
            fix = f"; workers: {len(queued)} in its pool stays below the limit" if queued else ""
            self._tell(text, f": {message}{fix}")
        self._crowded.append(job)

    def _use_room(self, ended: int) -> None:
        """Submit as many jobs again as have ended, or one now and then: others make room, too."""
        now = time.monotonic()
        count = ended or (self._room_at <= now)
        if not self._crowded or not count:
            return
        self._room_at = now + _ROOM
        for job in [self._crowded.popleft() for _ in range(min(count, len(self._crowded)))]:
            self._submit_again(job)

    def _tell(self, text: str, more: str = "") -> None:
        """Tell the user something, once."""
        if text not in self._told:
            self._told.add(text)
            problem(f"{text}{more}")

    def _look_later(self, job: SnakemakeJob, message: str = "") -> None:
        """Look whether a job has arrived unheard; otherwise it is submitted again, or was refused.

        ``message`` is what was said of one that was refused.
        """

        def look() -> None:
            arrived = self._submissions.arrived(job, self._name(job))
            if arrived is None:
                self._look_later(job, message)
            elif arrived:
                self._report_taken_over(self._info(job, arrived))
            elif message:
                self.report_job_error(SubmittedJobInfo(job), msg=_refused(message))
            else:
                self._submit_again(job)

        self._later(_LOOK, look)

    def _later(self, seconds: float, call: Callable[[], object]) -> None:
        """Do something later, unless somebody has stopped the run; again, if the disk is full."""

        def begin() -> None:
            try:
                if self.wait:
                    call()
            except OSError:
                self._later(seconds, call)

        later = threading.Timer(seconds, begin)
        later.daemon = True
        later.start()

    def get_job_args(self, job: SnakemakeJob, **options: object) -> str:
        """Return the arguments of a Snakemake on the node; one in its fallback is told so."""
        with fallback.as_sent(job):
            return super().get_job_args(job, **options)

    def report_job_submission(self, job_info: SnakemakeJobInfo, **options: object) -> None:
        """Take a job as submitted."""
        self._queue.submitted(job_info)
        self._moved_at = time.monotonic()
        self._silent_since = None
        report(Submitted(str(job_info.external_jobid)))
        super().report_job_submission(job_info, **options)

    # --- what has become of it --------------------------------------------------------------------

    async def check_active_jobs(
        self, active_jobs: list[SnakemakeJobInfo]
    ) -> AsyncIterator[SnakemakeJobInfo]:
        """Yield the jobs that have not ended, also those whose states are not known now."""
        # Snakemake asks first of all; an error would end its thread, and the run wait for ever.
        while not self._is_set_up.is_set():
            await asyncio.sleep(_STEP)
        asked, left = self._queue.look(active_jobs)
        left += await self._under_way(asked)
        for job in left:
            yield job
        now, ended = time.monotonic(), len(active_jobs) - len(left)
        self._moved_at = now if ended else self._moved_at
        self._use_room(ended)
        most = self.workflow.remote_execution_settings.seconds_between_status_checks
        self.next_seconds_between_status_checks = _pause(now - self._moved_at, most)

    async def _under_way(self, jobs: list[SnakemakeJobInfo]) -> list[SnakemakeJobInfo]:
        """Take in which jobs have ended, and return the others."""
        states = await asyncio.to_thread(self._states, jobs)
        kinds = {state.kind for state in states.values()} - {"done"}  # accounting knows these, too
        if jobs:
            self._note_silence(is_silent=len(states) < len(jobs) and not kinds)
        gone = {
            str(job.external_jobid) for job in jobs if states.get(id(job), _ALIVE).kind == "gone"
        }
        forgotten, left = self._forgotten.among(gone), []
        for job in jobs:
            state = states.get(id(job), _ALIVE)
            if state.kind == "done":
                self.report_job_success(job)
            elif state.kind == "failed" and state.lost:
                self._lost(job, state.said)
            elif state.kind == "failed" or (
                state.kind == "held" and time.time() - state.since >= self._held_timeout
            ):
                self._report_failed(job, state)
            elif str(job.external_jobid) in forgotten:
                title = sites.title(self._system)
                self._lost(job, f"{title} does not know job {job.external_jobid} any more")
            else:
                if state.shut:
                    self._queue.hurry(job)
                left.append(job)
        return left

    def _note_silence(self, *, is_silent: bool) -> None:
        """Tell the user that the states of jobs are not known, and that they are again."""
        title, now = sites.title(self._system), time.monotonic()
        text = f"the states of jobs are not known: {title} does not report them"
        if is_silent:
            self._unheard_since = now if self._unheard_since is None else self._unheard_since
            if now - self._unheard_since > _SILENT:
                self._tell(text, f"; running jobs go on, and {title} is asked again")
            return
        if text in self._told:
            self._told.remove(text)
            problem(f"{title} reports the states of jobs again")
        self._unheard_since = None

    def report_job_success(self, job_info: SnakemakeJobInfo) -> None:
        if self._tracker is None:
            self._done(job_info)
        else:
            self._report(job_info, self._tracker.end(job_info.job))

    def report_job_error(
        self, job_info: SnakemakeJobInfo, msg: str | None = None, **options: object
    ) -> None:
        """Take a job as failed; one that a person wants to have again is at the same attempt."""
        if self._tracker is None:
            self._failed(job_info, msg, **options)
            return
        if job_info.external_jobid is None:  # it was not queued: that is no matter of its files
            self._tracker.forget(job_info.job)
        self._report(job_info, self._tracker.end(job_info.job, msg or "failed"), **options)

    def _report(
        self, job_info: SnakemakeJobInfo, verdict: TravelVerdict, **options: object
    ) -> None:
        if verdict.what == "done":
            self._done(job_info)
        elif verdict.what == "lost":
            self._lost(job_info, verdict.message or "")
        else:
            self._failed(job_info, verdict.message, **options)

    def _done(self, job_info: SnakemakeJobInfo) -> None:
        self._submissions.ended(str(job_info.external_jobid))
        super().report_job_success(job_info)

    def _failed(self, job_info: SnakemakeJobInfo, msg: str | None, **options: object) -> None:
        batch_id = str(job_info.external_jobid)
        if wanted := self._submissions.is_wanted_again(batch_id):
            self._submissions.ended(batch_id)
        if not self._retries.settle(job_info.job, "wanted" if wanted else "error", msg):
            super().report_job_error(job_info, msg=msg, **options)

    def _lost(self, job_info: SnakemakeJobInfo, why: str) -> None:
        """Take a job as lost through no fault of its own, unless it is done."""
        job = job_info.job
        if self._tracker is not None:
            self._tracker.forget(job)
        elif all(Path(path).exists() for path in job.output):
            self.report_job_success(job_info)
            return
        self._submissions.ended(str(job_info.external_jobid))
        if not self._retries.settle(job, "lost"):
            super().report_job_error(job_info, msg=f"{why}; the job was lost too often")
        elif self._tracker is not None:
            print(f"{job.name}: sent again: {why}", flush=True)
        else:
            problem(f"{why}: it is submitted again")

    def _hand_back(self, job: SnakemakeJob) -> None:
        """Give a job that is not under way any more back to the scheduler, at the same attempt."""
        if self._tracker is not None:
            self._tracker.forget(job)
        self._retries.hand_back(job)

    def _submit_again(self, job: SnakemakeJob) -> None:
        if self.wait:  # the run was not stopped
            self.run_job(job)

    # --- what a batch system has of its own -------------------------------------------------------

    #: Those that the batch system does not list.
    _forgotten: Forgotten
    #: After so many seconds, a job that is held has failed.
    _held_timeout = math.inf

    def _states(self, jobs: list[SnakemakeJobInfo]) -> dict[int, BatchState]:
        """Return what is known now of jobs, by the ``id`` of what stands for each."""
        raise NotImplementedError

    def _report_failed(self, job_info: SnakemakeJobInfo, state: BatchState) -> None:
        self.report_job_error(job_info, msg=state.said)

    def _report_taken_over(self, job_info: SnakemakeJobInfo) -> None:
        self.report_job_submission(job_info)

    def _name(self, job: SnakemakeJob) -> str:
        """Return what a job is called in the queue."""
        return name_of(job)

    def _as_submitted(self, job: SnakemakeJob) -> SnakemakeJob:
        """Return a job as the plugin is to submit it."""
        return job

    def _number(self, batch_id: str) -> str | int:
        """Return the id of a job as the plugin knows it."""
        return batch_id


def _pause(quiet: float, most: float) -> float:
    """Return how long to wait for the next look: seconds, ``most`` where nothing moves."""
    return min(most, max(_LEAST, _PART * quiet))


def _refused(message: str) -> str:
    """Return what to tell of a job that was refused, by the batch system's sentence."""
    return f"{REFUSED}{' '.join(message.split())}"


class Forgotten:
    """Jobs that are under way for us, and that nobody knew in two looks, a minute apart.

    Its controller may have lost them with its state. Or they have ended while this process slept,
    longer ago than it tells. ``confirm`` says of one that it is known to be unknown.
    """

    def __init__(
        self, confirm: Callable[[str], bool] = lambda _job: True, *, pause: float = 60.0
    ) -> None:
        self._confirm = confirm
        self._pause, self._looked_at = pause, time.monotonic()
        self._missed: set[str] = set()

    def among(self, missed: set[str]) -> set[str]:
        """Take in which jobs nobody knows; return those that are forgotten if it is time."""
        if time.monotonic() - self._looked_at < self._pause:
            return set()
        self._looked_at = time.monotonic()
        forgotten = set(filter(self._confirm, missed & self._missed))
        self._missed = missed - forgotten
        return forgotten


def _tracker(build: Path) -> Tracker | None:
    """Return the tracker of jobs, if they travel in this run."""
    if not (build / layout.TRANSFER).is_file():
        return None
    # Imported when needed: that takes as long as Snakemake's own start, and most runs send nothing.
    from fasthep_smk.transfer.tracker import Tracker

    return Tracker(build)
