"""What a run has given to its batch system, and what an earlier one had that still goes on.

Each submission is noted before it is made and when the batch system has taken it
(`fasthep_smk.storage.batch_jobs`). A job of an earlier run that is still in the queue is taken over
in place of a submission: the run before this one has left there only what this one wants.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from fasthep_smk import sites
from fasthep_smk.executors.direct import is_alone, words_of
from fasthep_smk.executors.fallback import number
from fasthep_smk.executors.job_events import Submitted
from fasthep_smk.executors.logger_plugin import problem, report
from fasthep_smk.executors.read_as_text import (
    BEFORE_HTCONDOR,
    MAY_PASS,
    NO_ROOM,
)
from fasthep_smk.executors.refusals import refused
from fasthep_smk.flow import patches
from fasthep_smk.sites.commands import ask
from fasthep_smk.storage import batch_jobs, layout, run_lock
from fasthep_smk.storage.batch_jobs import BatchJob
from fasthep_smk.storage.job_settings import read_requests
from fasthep_smk.storage.observed import environment_of
from fasthep_smk.storage.task_table import TaskTable
from fasthep_smk.util.masking import masked
from fasthep_smk.util.snakemake_types import SnakemakeJob, SnakemakeJobInfo, Workflow, job_scheduler
from fasthep_smk.util.waiting import until

if TYPE_CHECKING:
    from fasthep_smk.executors.fallback import Queue
    from fasthep_smk.sites import Queued
    from fasthep_smk.storage.job_settings import Requests
    from fasthep_smk.transfer.tracker import Tracker

    class _Executor:
        """What the executors have that this is laid over, for the type checker."""

        wait: bool
        workflow: Workflow
        _queue: Queue
        _tracker: Tracker | None

        def __init__(self, *arguments: object, **options: object) -> None: ...

        def run_job(self, job: SnakemakeJob) -> None: ...

        def report_job_submission(self, job_info: SnakemakeJobInfo, **options: object) -> None: ...

        def report_job_success(self, job_info: SnakemakeJobInfo) -> None: ...

        def report_job_error(
            self, job_info: SnakemakeJobInfo, msg: str | None = None, **options: object
        ) -> None: ...

        def _hand_back(self, job: SnakemakeJob) -> None: ...

        def _submit_again(self, job: SnakemakeJob) -> None: ...

else:
    _Executor = object

__all__ = [
    "ALIVE",
    "Forgotten",
    "Submissions",
    "TakingOver",
    "name_of",
    "prepare_to_take_over",
]

#: For how many seconds an answer of the batch system is good enough.
_FRESH = 5.0
#: By so many seconds the clocks of this machine and of the batch system may differ.
_SKEW = 60.0
#: Seconds until the queue is looked at for a job whose submission had no answer.
_LOOK = 5.0
#: How long a submission under way may take when this process is asked to leave, in seconds.
_TO_LEAVE = 60.0
#: For how long to try to submit a job where nobody answers, and how long to wait between two tries;
#: after how long it is looked whether there is room for more jobs; in seconds.
_PATIENCE, _PAUSE, _ROOM = 1800, 5.0, 30.0
#: How often a job is submitted again that could not begin, or was lost.
_UNBEGUN = 5
#: Of a job of which nothing is known now.
ALIVE = sites.State("alive")


class Submissions:
    """The submissions from this folder, one process of Snakemake's at a time."""

    def __init__(self, system: str) -> None:
        self._build = Path.cwd()
        self.name, self.system = system, sites.system(system)
        #: Before this, no job was submitted by this process, and none of its jobs has ended.
        self.since = time.time() - _SKEW
        found = batch_jobs.read(self._build)
        self._earlier = {one.record: one for one in found if one.signature and one.batch_id}
        self._tokens: dict[str, str] = {}
        self._told = threading.local()
        self._lock = threading.Lock()
        self._under_way = 0
        self._leaving = False
        self._asked_at = -_FRESH
        self._queued: list[Queued] | None = None
        _all.append(self)

    @contextlib.contextmanager
    def submitting(self, job: SnakemakeJob, name: str, *, alone: bool) -> Iterator[None]:
        """Note the submission of a job that is made in the block.

        ``alone``: the batch job is our worker's command and nothing else.
        """
        with self._lock:
            leaving = self._leaving
            self._under_way += not leaving
        if leaving:
            threading.Event().wait()  # until the process ends
        try:
            self._told.job = _described(job, name, self.name, self._build, alone=alone)
            batch_jobs.submitting(self._build, self._told.job)
            yield
        finally:
            self._told.job = None
            with self._lock:
                self._under_way -= 1

    def taken(self, batch_id: str, captured: object = "", *, pilot: str = "") -> None:
        """Note that the batch system has taken the job whose submission is under way.

        Or a ``pilot`` of a pool, which ends with this run: no later one takes it over.
        """
        job: BatchJob | None = None if pilot else getattr(self._told, "job", None)
        if job is None:  # one of an array, or a pilot
            with self._lock:
                if batch_id in self._tokens:  # it was taken over, or is noted
                    return
                self._tokens[batch_id] = token = secrets.token_hex(8)
            own = {"record": "", "rule": "", "key": "", "name": "", "pilot": pilot}
            job = BatchJob(token=token, system=self.name, **own)
            batch_jobs.submitting(self._build, job)
        batch_jobs.queued(self._build, job.token, batch_id, str(captured))
        self._tokens[batch_id] = job.token

    def refused(self) -> None:
        """Note that the batch system has not taken the job whose submission is under way."""
        job: BatchJob | None = getattr(self._told, "job", None)
        if job is not None:
            batch_jobs.ended(self._build, job.token)

    def ended(self, batch_id: str) -> None:
        """Note that a job has ended well. One that has failed may be in the queue, held."""
        token = self._tokens.pop(batch_id, None)
        if token is not None:
            batch_jobs.ended(self._build, token)

    def is_wanted_again(self, batch_id: str) -> bool:
        """Return whether a person has cancelled a job to have it submitted again."""
        token = self._tokens.get(batch_id)
        if token is None:
            return False
        return any(one.token == token and one.again for one in batch_jobs.read(self._build))

    def arrived(self, job: SnakemakeJob, name: str) -> str | None:
        """Return the id of a submission whose answer was not understood; nothing if it has none.

        Of several, nobody would watch the earlier ones: they are cancelled. ``None``: the batch
        system does not answer.
        """
        found = sites.batch(self.name).arrived(self._build, name, self.since)
        if found is None:
            return None
        *others, batch_id = [one for one in found if one not in self._tokens] or [""]
        if others and name != job.name:  # rules that are not ours have one name for all their jobs
            ask(self.system.cancel(others))
        noted = [one for one in batch_jobs.read(self._build) if one.record == _record_of(job)]
        for one in reversed([one for one in noted if not one.batch_id]):
            if not batch_id or batch_id in self._tokens:
                batch_jobs.ended(self._build, one.token)
            else:
                batch_jobs.queued(self._build, one.token, batch_id, "")
                self._tokens[batch_id] = one.token
        return batch_id

    def is_left(self, job: SnakemakeJob) -> bool:
        """Whether an earlier run has submitted this job."""
        return bool(self._earlier) and _record_of(job) in self._earlier

    def take_over(self, job: SnakemakeJob) -> tuple[BatchJob, bool] | None:
        """Return the submission of an earlier run that is taken over, if there is one.

        And whether the job is in the queue still; otherwise it has ended well in the meantime.
        """
        with self._lock:
            earlier = self._earlier.pop(_record_of(job), None) if self._earlier else None
            if earlier is None:
                return None
            queued = self._ask()
        self._tokens[earlier.batch_id] = earlier.token
        if queued is None or earlier.batch_id in {one.batch_id for one in queued}:
            return earlier, True
        if all(Path(path).exists() for path in job.output):
            return earlier, False
        self.ended(earlier.batch_id)
        return None

    def leave(self) -> None:
        """End this process when no submission is under way; all jobs stay in the queue."""
        with self._lock:
            self._leaving = True
        until(lambda: not self._under_way, seconds=_TO_LEAVE, pause=0.05)
        os.kill(os.getpid(), signal.SIGKILL)

    def _ask(self) -> list[Queued] | None:
        if time.monotonic() - self._asked_at > _FRESH:
            self._queued = self.system.queued(self._build)
            self._asked_at = time.monotonic()
        return self._queued


class TakingOver(_Executor):
    """To be laid over a plugin's executor: takes over what an earlier run has submitted."""

    _submissions: Submissions

    def __init__(self, *arguments: object, **options: object) -> None:
        self._silent_since: float | None = None
        #: Jobs that the batch system has no room for, and when one is tried again.
        self._crowded: deque[SnakemakeJob] = deque()
        self._room_at = 0.0
        self._told: set[str] = set()
        self._unbegun: Counter[int] = Counter()
        super().__init__(*arguments, **options)

    def run_job(self, job: SnakemakeJob) -> None:
        """Take a job over, or submit it."""
        earlier = self._submissions.take_over(job)
        if earlier is None:
            alone = self._tracker is None and is_alone(job, self.workflow)
            with self._submissions.submitting(job, self._name(job), alone=alone):
                self._hand_over(job)
            return
        one, goes_on = earlier
        info = self._info(job, one.batch_id, one.captured)
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
            said = BEFORE_HTCONDOR.sub("", masked(str(error)))
            system = sites.batch(self._submissions.name)
            if not (isinstance(error, WorkflowError) or system.NO_ANSWER.search(said)):
                raise
            if not system.NO_WORD.search(said):
                self._submissions.refused()
            if why := self._not_taken(job, said):
                self.report_job_error(SubmittedJobInfo(job), msg=why)

    def _not_taken(self, job: SnakemakeJob, said: str, *, unclear: bool = False) -> str | None:
        """Return what to report of a job that was not taken, by what the batch system says of it.

        Nothing, where it is submitted again at the same attempt: the batch system does not answer,
        or has no room now, or it is looked up whether the job has arrived. Or it goes to its
        fallback. ``unclear``: it may have arrived, and was refused if it has not.
        """
        system = sites.batch(self._submissions.name)
        if not self.wait:
            return refused(job, said)
        if unclear:
            self._look_later(job, said)
        elif system.NO_ANSWER.search(said) and self._is_patient(said):
            self._later(_PAUSE, lambda: self._submit_again(job))
        elif system.NO_WORD.search(said) and self._is_patient(said):
            self._look_later(job)
        elif NO_ROOM.search(said):
            self._wait_for_room(job, said)
        elif MAY_PASS.search(said) or not (pools := self._queue.leave(job)):
            return refused(job, said)
        else:
            self._tell("pool {!r} takes no jobs, they go to pool {!r}".format(*pools), f": {said}")
        return None

    def _is_patient(self, said: str) -> bool:
        """Whether a batch system that does not answer is waited for: for half an hour."""
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = now
            title = sites.title(self._submissions.name)
            problem(f"{title} does not answer, trying again: {' '.join(said.split())}")
        return now - self._silent_since < _PATIENCE

    def _wait_for_room(self, job: SnakemakeJob, said: str) -> None:
        """Let a job wait until the batch system takes more of this user's."""
        title = sites.title(self._submissions.name)
        what = f"{title} takes no more jobs now, the others wait for that"
        if what not in self._told:
            queued = self._submissions.system.queued(Path.cwd())
            fix = f"; workers: {len(queued)} of its pool keeps within that" if queued else ""
            self._tell(what, f": {said}{fix}")
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

    def _tell(self, what: str, more: str = "") -> None:
        """Tell the user something, once."""
        if what not in self._told:
            self._told.add(what)
            problem(f"{what}{more}")

    def _look_later(self, job: SnakemakeJob, said: str = "") -> None:
        """Look whether a job has arrived unheard; otherwise it is submitted again, or was refused.

        ``said`` is what was said of one that was refused.
        """

        def look() -> None:
            arrived = self._submissions.arrived(job, self._name(job))
            if arrived is None:
                self._look_later(job, said)
            elif arrived:
                self._report_taken_over(self._info(job, arrived))
            elif said:
                self.report_job_error(SubmittedJobInfo(job), msg=refused(job, said))
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

    def report_job_submission(self, job_info: SnakemakeJobInfo, **options: object) -> None:
        self._silent_since = None
        report(Submitted(str(job_info.external_jobid)))
        super().report_job_submission(job_info, **options)

    def _is_forgotten(self, job_info: SnakemakeJobInfo) -> None:
        """Submit a job again that the batch system does not know any more, unless it is done."""
        batch_id, title = str(job_info.external_jobid), sites.title(self._submissions.name)
        if self._tracker is None and all(Path(path).exists() for path in job_info.job.output):
            self.report_job_success(job_info)
        elif not self._is_lost_again(job_info.job):
            self._submissions.ended(batch_id)
            self._begin_again(job_info, f"{title} does not know job {batch_id} any more")
        else:
            self.report_job_error(
                job_info,
                msg=f"{title} has lost this job {_UNBEGUN + 1} times: {batch_id} is the last one",
            )

    def _begin_again(self, job_info: SnakemakeJobInfo, why: str) -> None:
        """Let a job that was lost be submitted again, at the same attempt."""
        self._unbegun[job_info.job.jobid] += 1
        problem(f"{why}: it is submitted again")
        self._hand_back(job_info.job)

    def _is_lost_again(self, job: SnakemakeJob) -> bool:
        return self._unbegun[job.jobid] >= _UNBEGUN

    def report_job_success(self, job_info: SnakemakeJobInfo) -> None:
        self._submissions.ended(str(job_info.external_jobid))
        super().report_job_success(job_info)

    def report_job_error(
        self, job_info: SnakemakeJobInfo, msg: str | None = None, **options: object
    ) -> None:
        """Take a job as failed; one that a person wants to have again is at the same attempt."""
        batch_id = str(job_info.external_jobid)
        if self._submissions.is_wanted_again(batch_id):
            self._submissions.ended(batch_id)
            self._hand_back(job_info.job)
        else:
            super().report_job_error(job_info, msg=msg, **options)

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


#: Those of this process: one, or none.
_all: list[Submissions] = []


def prepare_to_take_over() -> None:
    """Let Snakemake's scheduler choose first what an earlier run has left.

    Such jobs run, whether it has chosen them or not: others beside them would be more than the
    workers that there are. And leave all jobs where they are when this process gets SIGHUP. A job
    that runs on this machine is not taken for a process of the run.
    """
    if not Path(layout.TRANSFER).is_file():  # or else the end of the run is a process of it
        os.environ.pop(run_lock.MARK, None)
    scheduler = job_scheduler()
    choose = scheduler.job_selector

    def job_selector(self: object, jobs: Collection[SnakemakeJob]) -> object:
        left = {job for job in jobs for one in _all if one.is_left(job)}
        return (left and choose(self, left)) or choose(self, jobs)

    def leave(_number: int, _frame: object) -> None:
        for one in _all:
            threading.Thread(target=one.leave, daemon=True).start()
        if not _all:
            os.kill(os.getpid(), signal.SIGKILL)

    patches.TAKING_OVER.make(scheduler, job_selector=job_selector)
    signal.signal(signal.SIGHUP, leave)


def name_of(job: SnakemakeJob) -> str:
    """Return a job's rule, and its dataset and partition; of several in a group, the first."""
    first = next(iter(sorted(getattr(job, "jobs", []), key=_record_of)), job)
    words = None if first.is_group() else words_of(first)
    if not words:
        return job.name
    return ":".join(filter(None, (job.name if job.is_group() else words[0], "/".join(words[1:]))))


def _described(job: SnakemakeJob, name: str, system: str, build: Path, *, alone: bool) -> BatchJob:
    """Return what is noted of a job; ``alone``: it can be taken over by a later run."""
    rule, *place = (words_of(job) if not job.is_group() else None) or [job.name]
    key = "/".join(place)
    found = BatchJob(
        token=secrets.token_hex(8),
        record=_record_of(job),
        rule=rule,
        key=key,
        system=system,
        name=name,
    )
    if not alone:
        return found
    requests = _requests(build)
    asked = requests.get("submitted_as", {}).get(rule, [""])
    return replace(
        found,
        signature=_signature(_table(build, rule), key),
        asked=asked[min(number(job), len(asked)) - 1],
        environment=batch_jobs.environment(environment_of(build)),
    )


def _record_of(job: SnakemakeJob) -> str:
    return next(iter(map(str, job.output)), "")


def _signature(table: TaskTable, key: str) -> str:
    """Return what a job, or a bundle of jobs, is to compute; nothing of a probe, which has none."""
    entry = table.bundles.get(key) or table.jobs.get(key)
    return entry.signature if entry else ""


@lru_cache(maxsize=1)
def _requests(build: Path) -> Requests:
    """Return what jobs ask for: it does not change while Snakemake runs."""
    return read_requests(build)


@lru_cache(maxsize=64)
def _table(build: Path, rule: str) -> TaskTable:
    """Return a task table: it does not change while Snakemake runs."""
    return TaskTable.read(build, rule)
