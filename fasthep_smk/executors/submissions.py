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
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk import sites
from fasthep_smk.executors import scheduler
from fasthep_smk.executors.direct import words_of
from fasthep_smk.executors.fallback import number
from fasthep_smk.sites.commands import ask
from fasthep_smk.storage import batch_jobs, layout, run_lock
from fasthep_smk.storage.batch_jobs import BatchJob
from fasthep_smk.storage.job_settings import read_requests
from fasthep_smk.storage.observed import environment_of
from fasthep_smk.storage.task_table import TaskTable
from fasthep_smk.util.snakemake_types import SnakemakeJob
from fasthep_smk.util.waiting import until

if TYPE_CHECKING:
    from fasthep_smk.sites import Queued
    from fasthep_smk.storage.job_settings import Requests

#: For how many seconds an answer of the batch system is good enough.
_FRESH = 5.0
#: By so many seconds the clocks of this machine and of the batch system may differ.
_SKEW = 60.0
#: How long a submission under way may take when this process is asked to leave, in seconds.
_TO_LEAVE = 60.0


class Submissions:
    """The submissions from this folder, one process of Snakemake's at a time."""

    def __init__(self, system: str) -> None:
        self._build = Path.cwd()
        self.name, self.system = system, sites.system(system)
        #: Before this, no job was submitted by this process, and none of its jobs has ended.
        self.since = time.time() - _SKEW
        noted = batch_jobs.read(self._build)
        self._earlier = {job.record: job for job in noted if job.signature and job.batch_id}
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
        return any(job.token == token and job.again for job in batch_jobs.read(self._build))

    def arrived(self, job: SnakemakeJob, name: str) -> str | None:
        """Return the id of a submission whose answer was not understood; nothing if it has none.

        Of several, nobody would watch the earlier ones: they are cancelled. ``None``: the batch
        system does not answer.
        """
        ids = self.system.arrived(self._build, name, self.since)
        if ids is None:
            return None
        *others, batch_id = [job_id for job_id in ids if job_id not in self._tokens] or [""]
        if others and name != job.name:  # rules that are not ours have one name for all their jobs
            ask(self.system.cancel(others))
        noted = [entry for entry in batch_jobs.read(self._build) if entry.record == _record_of(job)]
        for entry in reversed([entry for entry in noted if not entry.batch_id]):
            if not batch_id or batch_id in self._tokens:
                batch_jobs.ended(self._build, entry.token)
            else:
                batch_jobs.queued(self._build, entry.token, batch_id, "")
                self._tokens[batch_id] = entry.token
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
        if queued is None or earlier.batch_id in {entry.batch_id for entry in queued}:
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


#: Those of this process: one, or none.
_all: list[Submissions] = []


def prepare_to_take_over() -> None:
    """Let jobs that an earlier run has left count first.

    They run, whether they are chosen or not: others beside them would be more than the workers
    that there are. And leave all jobs where they are when this process gets SIGHUP. A job
    that runs on this machine is not taken for a process of the run.
    """
    if not Path(layout.TRANSFER).is_file():  # or else the end of the run is a process of it
        os.environ.pop(run_lock.MARK, None)
    scheduler.is_left.append(lambda job: any(submissions.is_left(job) for submissions in _all))

    def leave(_number: int, _frame: object) -> None:
        for submissions in _all:
            threading.Thread(target=submissions.leave, daemon=True).start()
        if not _all:
            os.kill(os.getpid(), signal.SIGKILL)

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
    noted = BatchJob(
        token=secrets.token_hex(8),
        record=_record_of(job),
        rule=rule,
        key=key,
        system=system,
        name=name,
    )
    if not alone:
        return noted
    requests, table = _requests(build), _table(build, rule)
    entry = table.bundles.get(key) or table.jobs.get(key)
    asked = requests.get("submitted_as", {}).get(rule, [""])
    return replace(
        noted,
        signature=entry.signature if entry else "",  # a probe computes nothing
        asked=asked[min(number(job), len(asked)) - 1],
        environment=batch_jobs.environment(environment_of(build)),
    )


def _record_of(job: SnakemakeJob) -> str:
    return next(iter(map(str, job.output)), "")


@lru_cache(maxsize=1)
def _requests(build: Path) -> Requests:
    """Return what jobs ask for: it does not change while Snakemake runs."""
    return read_requests(build)


@lru_cache(maxsize=64)
def _table(build: Path, rule: str) -> TaskTable:
    """Return a task table: it does not change while Snakemake runs."""
    return TaskTable.read(build, rule)
