"""Runs and jobs that go on elsewhere: ``cancel`` and ``retry``."""

from __future__ import annotations

import argparse
import contextlib
import operator
import os
import signal
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from fasthep_smk import sites
from fasthep_smk.run import earlier_jobs, lock
from fasthep_smk.sites.commands import order
from fasthep_smk.storage import batch_jobs, layout, run_lock
from fasthep_smk.storage.jobs import find_build
from fasthep_smk.storage.queue import Left, find
from fasthep_smk.storage.run_lock import LockNote
from fasthep_smk.util.errors import RunFailed, WrongArgument, not_among
from fasthep_smk.util.names import shell
from fasthep_smk.util.waiting import until

_PAUSE = 0.2
#: How long a run may take to end that is stopped: its batch jobs are cancelled first.
_STOPS = 120.0
#: How long one that begins may take to say that it has the build folder.
_BEGINS = 10.0
#: How long one batch job may take to leave the queue that is cancelled.
_GOES = 15.0


def do_cancel(options: argparse.Namespace) -> int:
    """Stop the run of a build folder."""
    return cancel(options.build)


def do_retry(options: argparse.Namespace) -> int:
    """Let a job be submitted again."""
    return retry(options.job, options.build)


def cancel(folder: Path) -> int:
    """Stop the run of a build folder, and cancel the batch jobs that it, or an earlier one, has.

    Raises:
        Held: the run does not end.
        RunFailed: the batch system does not answer, or the run is on another machine.
    """
    build = find_build(folder)
    end, was_stopped = time.monotonic() + _BEGINS, False
    while True:
        if (who := run_lock.holder(build)) is not None:
            count = len(find(build) or ())
            _stop(build, who)
            jobs = f"{count} job{'s' if count != 1 else ''} of the batch system with it"
            print(f"the run was stopped ({_process(who)}){f', and {jobs}' if count else ''}")
            was_stopped = True
        try:
            with lock.hold(build):
                lines = earlier_jobs.cancel_all(build)
            break
        except lock.Held:  # one that has just begun has not said yet who it is
            if time.monotonic() > end:
                raise
            time.sleep(_PAUSE)
    if not lines and not was_stopped:
        lines = ["nothing to cancel: no run is in progress, and no job is in a queue"]
    for line in lines:
        print(line)
    return 0


def retry(name: str, folder: Path) -> int:
    """Cancel one batch job, which is submitted again: on another node, perhaps.

    That uses up none of its attempts.

    Raises:
        RunFailed: the batch system does not answer, or does not cancel it.
        WrongArgument: it has no such job of this build folder.
    """
    build = find_build(folder)
    remaining = find(build)
    if remaining is None:
        if silent := [
            job.system for job in batch_jobs.read(build) if not sites.system(job.system).LISTS_JOBS
        ]:
            raise RunFailed(
                f"{sites.unknown(silent[0])}: cancel the job with that system's own command; the "
                "run then submits it again"
            )
        raise RunFailed("the batch system does not answer: run this command again later")
    mine = [left for left in remaining if name in (left.queued.batch_id, left.job.name)]
    if not mine:
        names = [left.job.name for left in remaining]
        problem = "is not a job in the queue"
        finding = not_among(name, names, problem=problem, file=None, key="JOB")
        expected = f"a name or number that {shell(['fasthep-smk', 'status', folder])!r} lists"
        hint = finding.hint or "if the job has failed, the next run starts it again"
        raise WrongArgument([replace(finding, expected=expected, hint=hint)])
    if pilots := [left for left in mine if left.job.pilot]:
        raise WrongArgument.one(
            f"is a pilot, which runs one job after another for pool {pilots[0].job.pilot!r}",
            key="JOB",
            value=name,
            expected="a job that is not a pilot; if a job hangs in a pilot, the time limit "
            "(walltime) of its pool ends the job",
        )
    for left in mine:
        _cancel(left, build)
        who = "the run" if run_lock.holder(build) else "the next run"
        print(f"job {left.queued.batch_id} ({left.job.name}) cancelled: {who} submits it again")
    return 0


def _cancel(left: Left, build: Path) -> None:
    """Cancel a batch job that is to be submitted again, and see it go."""
    number, system = left.queued.batch_id, left.job.system
    batch_jobs.again(build, left.job.token)  # before its run hears of its end
    answer = order(sites.system(system).cancel([number]))
    problem = answer.problem
    if answer.well:
        there = partial(_still_there, number, system, build)
        problem = until(there, seconds=_GOES, pause=_PAUSE, enough=operator.not_)
    if problem:
        # Where it is not known, its end may still come, and is what was asked for.
        if not answer.well or problem != _silent(system):
            batch_jobs.again(build, left.job.token, wanted=False)
        raise RunFailed(f"job {number} ({left.job.name}) was not cancelled: {problem}")


def _silent(system: str) -> str:
    return f"{system} does not answer"


def _still_there(number: str, system: str, build: Path) -> str:
    """Return what keeps a job from being gone, if something does."""
    queued = sites.system(system).queued(build)
    if queued is None:
        return _silent(system)
    there = any(job.batch_id == number and job.state != "ending" for job in queued)
    return f"still in the queue after {_GOES:.0f} s" if there else ""


def _stop(build: Path, who: LockNote) -> None:
    if who.pid is None or not run_lock.note_of(build / layout.LOCK).is_here:
        raise RunFailed(f"the run in {build} is on {who.host} ({_process(who)}): cancel it there")
    with contextlib.suppress(ProcessLookupError):
        os.kill(who.pid, signal.SIGINT)
    if not until(lambda: run_lock.holder(build) is None, seconds=_STOPS, pause=_PAUSE):
        raise lock.Held.by(who, build)


def _process(who: LockNote) -> str:
    return f"process {who.pid} on {who.host}"
