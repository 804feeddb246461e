"""Batch jobs that a run has left in the queue: the next one takes them over, or cancels them.

Before a run changes anything in the build folder it looks at what is left there. Jobs that it would
submit just so itself go on; the others are cancelled, and are gone before anything that writes the
same files is submitted.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk import sites
from fasthep_smk.sites.commands import ask
from fasthep_smk.storage import batch_jobs, layout
from fasthep_smk.storage.batch_jobs import BatchJob
from fasthep_smk.storage.observed import variables_of_run
from fasthep_smk.storage.queue import Left, find
from fasthep_smk.util.errors import RunFailed
from fasthep_smk.util.names import shell
from fasthep_smk.util.waiting import until

if TYPE_CHECKING:
    from fasthep_smk.translate.translation import Placed

#: How long a submission may be under way whose process has ended, how long jobs may take to be
#: gone that were cancelled, and how long a run that ends waits for that; in seconds.
_ARRIVAL, _END, _SHORT = 10.0, 90.0, 5.0
_PAUSE = 0.5
#: Batch systems take so many jobs in one command.
_AT_ONCE = 500

#: Why jobs of an earlier run are cancelled.
_CHANGED = "this run does not need them, or needs different jobs"
_OTHER = (
    "jobs in transfer mode, in a group or in a container, and jobs of systems other than Slurm and "
    "HTCondor, cannot be taken over"
)
_VARIABLES = "environment variables have changed while these jobs waited"
_PILOT = "a pilot ends with its run, and its jobs run again"


def settle(placed: Placed, *, cancel: bool = False) -> list[str]:
    """Let jobs of an earlier run go on that this one wants; cancel the others, or all.

    Afterwards those are noted that go on, and no others. Returns lines for the user.

    Raises:
        RunFailed: the batch system does not answer, or does not end what was cancelled.
    """
    build = placed.build
    noted = batch_jobs.read(build)
    remaining = find(build, patience=_ARRIVAL)
    if remaining is None:
        text = _unanswered(noted, "an earlier run")
        if not cancel:
            raise RunFailed(f"{text}\nor add --cancel: the run then goes on without these jobs")
        batch_jobs.replace(build, [])
        return [text]
    tokens = [left.job.token for left in remaining]
    unwanted = dict.fromkeys(tokens, "") if cancel else _unwanted(remaining, placed)
    keep = [left for left in remaining if left.job.token not in unwanted]
    drop = [left for left in remaining if left.job.token in unwanted]
    still = _cancel(build, drop, _END)
    going = [left.job for left in keep]
    if still and not cancel:
        batch_jobs.replace(build, [*going, *map(_given_up, still)])
        raise RunFailed(f"{_slow(still)}\nrun again later, or add --cancel to continue now")
    batch_jobs.replace(build, going)
    lines = [_going(keep)] if keep else []
    lines += [_slow(still)] if still else []
    gone: dict[str, list[Left]] = {}
    for left in drop:
        if left not in still and left.queued.state != "ending":
            gone.setdefault(unwanted[left.job.token], []).append(left)
    return lines + [
        f"{_counted(jobs)} of an earlier run cancelled" + (f": {why}" if why else "")
        for why, jobs in gone.items()
    ]


def _unwanted(remaining: Iterable[Left], placed: Placed) -> dict[str, str]:
    """Return by their tokens the jobs that this run would not submit just so, and why."""
    signatures = _signatures(placed)
    asked = placed.placement.submitted_as()
    variables = batch_jobs.environment(variables_of_run(placed.build))
    takes = not placed.placement.transfers
    system = placed.placement.site.system
    unwanted: dict[str, str] = {}
    latest: dict[str, str] = {}
    for job, queued in ((left.job, left.queued) for left in remaining):
        if queued.state == "ending":  # it has ended, or was cancelled
            unwanted[job.token] = ""
        elif job.pilot:
            unwanted[job.token] = _PILOT
        elif not job.signature or not takes:
            unwanted[job.token] = _OTHER
        elif (
            job.system != system
            or signatures.get(job.record) != job.signature
            or job.asked not in asked.get(job.rule, ())
        ):
            unwanted[job.token] = _CHANGED
        elif queued.state == "waiting" and job.environment != variables:
            unwanted[job.token] = _VARIABLES
        else:
            if job.record in latest:  # an attempt that was given up
                unwanted[latest[job.record]] = _CHANGED
            latest[job.record] = job.token
    return unwanted


def _signatures(placed: Placed) -> dict[str, str]:
    """Return what each job, or bundle of jobs, is to compute, by what Snakemake waits for."""
    from fasthep_smk.translate.bundles import signature_of  # imports much

    signatures: dict[str, str] = {}
    for rule in placed.rules:
        for bundle in rule.bundles.values():
            signatures[bundle.marker] = signature_of(rule, bundle)
        for job in () if rule.bundles else rule.jobs.values():
            signatures[f"{job.folder}/{layout.RECORD}"] = job.signature
    return signatures


def drop_done(build: Path) -> None:
    """Cancel jobs that go on although what they make is there: earlier results were brought back.

    Raises:
        RunFailed: the batch system does not end them.
    """
    noted = batch_jobs.read(build)
    done = {job.token for job in noted if job.record and (build / job.record).exists()}
    if done:
        remaining = find(build, patience=_ARRIVAL)
        if remaining is None:
            raise RunFailed(_unanswered(noted, "an earlier run"))
        still = _cancel(build, [left for left in remaining if left.job.token in done], _END)
        going = [job for job in noted if job.token not in done]
        batch_jobs.replace(build, [*going, *map(_given_up, still)])
        await_end(build)


def await_end(build: Path) -> None:
    """Wait for jobs that were given up.

    Raises:
        RunFailed: they do not end: what is submitted now would run beside them.
    """
    left = until(lambda: _left(build), seconds=_END, pause=_PAUSE, enough=lambda jobs: jobs == [])
    if left is None:
        raise RunFailed(_unanswered(batch_jobs.read(build), "an earlier run"))
    if left:
        raise RunFailed(f"{_slow(left)}\nrun again later")


def _left(build: Path) -> list[Left] | None:
    """Return the jobs in the queue that were given up; ``None`` if a system does not answer."""
    if all(job.signature for job in batch_jobs.read(build)):
        return []
    remaining = find(build)
    return None if remaining is None else [left for left in remaining if not left.job.signature]


def take_back(build: Path) -> str | None:
    """Cancel what a run that ends has left in the queue.

    Returns a word for the user if the batch system does not answer.
    """
    noted = batch_jobs.read(build)
    remaining = find(build, patience=_SHORT) if noted else []
    if remaining is None:
        batch_jobs.replace(build, [replace(job, signature="") for job in noted])
        return _unanswered(noted, "this run")
    batch_jobs.replace(build, map(_given_up, _cancel(build, remaining, _SHORT)))
    return None


def cancel_all(build: Path) -> list[str]:
    """Cancel all jobs of a build folder; return lines for the user.

    Raises:
        RunFailed: the batch system does not answer.
    """
    noted = batch_jobs.read(build)
    remaining = find(build, patience=_ARRIVAL) if noted else []
    if remaining is None:
        raise RunFailed(_unanswered(noted, "an earlier run"))
    still = _cancel(build, remaining, _END)
    batch_jobs.replace(build, map(_given_up, still))
    lines = [f"{_counted(remaining)} cancelled"] if remaining else []
    return [*lines, *([_slow(still)] if still else [])]


def stay(build: Path) -> str | None:
    """Return what to say of jobs that go on when Snakemake was killed."""
    noted = batch_jobs.read(build)
    own = sum(not job.pilot for job in noted)
    lines = []
    if own and not all(sites.system(job.system).LISTS_JOBS for job in noted):
        lines.append(_unanswered(noted, "this run"))
    elif own:
        lines.append(
            f"{_number(own, 'job')} may still be in the queue: the same command takes them over, "
            "or cancels them if you add --cancel"
        )
    if len(noted) > own:
        lines.append("pilots end within a minute, with their jobs: run the same command again")
    return "\n".join(lines) or None


def _cancel(build: Path, jobs: Collection[Left], seconds: float) -> list[Left]:
    """Cancel jobs, and wait until they are gone; return those that are still there."""
    systems = dict.fromkeys(left.job.system for left in jobs)
    for system in systems:
        mine = [left.queued for left in jobs if left.job.system == system]
        ids = [queued.batch_id for queued in mine if queued.state != "ending"]
        for start in range(0, len(ids), _AT_ONCE):
            ask(sites.system(system).cancel(ids[start : start + _AT_ONCE]))

    def still() -> list[Left]:
        there = {system: _there(system, build) for system in systems}
        return [left for left in jobs if _is_in(left, there[left.job.system])]

    return until(still, seconds=seconds, pause=_PAUSE, enough=operator.not_)


def _there(system: str, build: Path) -> set[str] | None:
    queued = sites.system(system).queued(build)
    return None if queued is None else {job.batch_id for job in queued}


def _is_in(left: Left, there: set[str] | None) -> bool:
    """Whether a job is in the queue, as far as is known."""
    return there is None or left.queued.batch_id in there


def _given_up(left: Left) -> BatchJob:
    """Return a job as it is noted that must not be taken over."""
    return replace(left.job, signature="")


def _unanswered(noted: Iterable[BatchJob], whose: str) -> str:
    texts = []
    for system in dict.fromkeys(job.system for job in noted):
        ids = [job.batch_id for job in noted if job.system == system and job.batch_id]
        if sites.system(system).LISTS_JOBS:
            command = shell(sites.system(system).cancel(ids))
            texts.append(
                f"{sites.title(system)} does not answer: jobs of {whose} may be left in its queue. "
                f"Later, cancel them:\n    {command}"
            )
        else:
            texts.append(
                f"{sites.unknown(system)}: jobs of {whose} may be left in it. "
                f"Cancel them there: {', '.join(ids) or 'their numbers are not known'}"
            )
    return "\n".join(texts)


def _slow(jobs: Iterable[Left]) -> str:
    ids = ", ".join(left.queued.batch_id for left in jobs)
    return f"cancelled jobs are still in the queue after {_END:.0f} s: {ids}"


def _going(jobs: Collection[Left]) -> str:
    waiting = sum(left.queued.state == "waiting" for left in jobs)
    counts = (("running", len(jobs) - waiting), ("waiting", waiting))
    states = ", ".join(f"{count} {state}" for state, count in counts if count)
    verb = "goes" if len(jobs) == 1 else "go"
    return f"{_counted(jobs)} of an earlier run {verb} on: {states}"


def _counted(jobs: Collection[Left]) -> str:
    """Return how many jobs these are, and how many pilots."""
    pilots = sum(bool(left.job.pilot) for left in jobs)
    counts = {"job": len(jobs) - pilots, "pilot": pilots}
    return " and ".join(_number(count, noun) for noun, count in counts.items() if count)


def _number(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"
