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
    from fasthep_smk.sites import Queued
    from fasthep_smk.translate.translation import Placed

#: How long a submission may be under way whose process has ended, how long jobs may take to be
#: gone that were cancelled, and how long a run that ends waits for that; in seconds.
_ARRIVAL, _END, _SHORT = 10.0, 90.0, 5.0
_PAUSE = 0.5
#: Batch systems take so many jobs in one command.
_AT_ONCE = 500

#: Why jobs of an earlier run are cancelled.
_CHANGED = "this run does not need them, or needs others"
_OTHER = (
    "only jobs of Slurm and HTCondor can be taken over, and none in transfer mode, in a group or "
    "in a container"
)
_VARIABLES = "environment variables have changed while it waited"
_PILOT = "a pilot ends with its run, and its jobs run again"


def settle(placed: Placed, *, cancel: bool = False) -> list[str]:
    """Let jobs of an earlier run go on that this one wants; cancel the others, or all.

    Afterwards those are noted that go on, and no others. Returns lines for the user.

    Raises:
        RunFailed: the batch system does not answer, or does not end what was cancelled.
    """
    build = placed.build
    noted = batch_jobs.read(build)
    if not noted:
        return []
    found = find(build, patience=_ARRIVAL)
    if found is None:
        said = _unanswered(noted, "an earlier run")
        if not cancel:
            raise RunFailed(f"{said}\nor go on without them: add --cancel")
        batch_jobs.replace(build, [])
        return [said]
    unwanted = {left.job.token: "" for left in found} if cancel else _unwanted(found, placed)
    drop = [left for left in found if left.job.token in unwanted]
    keep = [left for left in found if left.job.token not in unwanted]
    lines = [_goes_on(keep)] if keep else []
    if drop:
        still = _cancel(build, drop, _END)
        batch_jobs.replace(build, [*(one.job for one in keep), *map(_given_up, still)])
        if still:
            said = f"{_counted(still)} of an earlier run {_were(still)} cancelled, but still there"
            said += f" after {_END:.0f} s: {_ids(still)}"
            if not cancel:
                raise RunFailed(f"{said}\nrun again later, or add --cancel to continue now")
            lines.append(said)
        gone = [one for one in drop if one not in still and one.queued.state != "ending"]
        for some in (_own(gone), _pilots(gone)):
            why = "; ".join(dict.fromkeys(filter(None, (unwanted[one.job.token] for one in some))))
            if some:
                said = f"{_counted(some)} of an earlier run cancelled"
                lines.append(f"{said}: {why}" if why else said)
    batch_jobs.replace(build, [left.job for left in keep])
    return lines


def _unwanted(found: Iterable[Left], placed: Placed) -> dict[str, str]:
    """Return by their tokens the jobs that this run would not submit just so, and why."""
    signatures = _signatures(placed)
    asked = placed.placement.submitted_as()
    variables = batch_jobs.environment(variables_of_run(placed.build))
    takes = not placed.placement.transfers
    system = placed.placement.site.system
    unwanted: dict[str, str] = {}
    latest: dict[str, str] = {}
    for job, queued in ((left.job, left.queued) for left in found):
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

    found: dict[str, str] = {}
    for rule in placed.rules:
        for bundle in rule.bundles.values():
            found[bundle.marker] = signature_of(rule, bundle)
        for job in () if rule.bundles else rule.jobs.values():
            found[f"{job.folder}/{layout.RECORD}"] = job.signature
    return found


def drop_done(build: Path) -> None:
    """Cancel jobs that go on although what they make is there: earlier results were brought back.

    Raises:
        RunFailed: the batch system does not end them.
    """
    noted = batch_jobs.read(build)
    done = {one.token for one in noted if one.record and (build / one.record).exists()}
    if done:
        found = find(build, patience=_ARRIVAL)
        if found is None:
            raise RunFailed(_unanswered(noted, "an earlier run"))
        drop = [left for left in found if left.job.token in done]
        still = _cancel(build, drop, _END) if drop else []
        batch_jobs.replace(
            build, [*(one for one in noted if one.token not in done), *map(_given_up, still)]
        )
        await_end(build)


def await_end(build: Path) -> None:
    """Wait for jobs that were given up.

    Raises:
        RunFailed: they do not end: what is submitted now would run beside them.
    """
    left = until(lambda: _left(build), seconds=_END, pause=_PAUSE, enough=lambda found: found == [])
    if left is None:
        raise RunFailed(_unanswered(batch_jobs.read(build), "an earlier run"))
    if left:
        raise RunFailed(
            f"cancelled jobs are still in the queue after {_END:.0f} s: {_ids(left)}\n"
            "run again later"
        )


def _left(build: Path) -> list[Left] | None:
    """Return the jobs in the queue that were given up; ``None`` if a system does not answer."""
    if all(one.signature for one in batch_jobs.read(build)):
        return []
    found = find(build)
    return None if found is None else [one for one in found if not one.job.signature]


def take_back(build: Path) -> str | None:
    """Cancel what a run that ends has left in the queue.

    Returns a word for the user if the batch system does not answer.
    """
    noted = batch_jobs.read(build)
    found = find(build, patience=_SHORT) if noted else []
    still = [Left(one, _nowhere(one)) for one in noted] if found is None else found
    if found:
        still = _cancel(build, found, _SHORT)
    batch_jobs.replace(build, map(_given_up, still))
    return _unanswered(noted, "this run") if found is None else None


def cancel_all(build: Path) -> list[str]:
    """Cancel all jobs of a build folder; return lines for the user.

    Raises:
        RunFailed: the batch system does not answer.
    """
    noted = batch_jobs.read(build)
    found = find(build, patience=_ARRIVAL) if noted else []
    if found is None:
        raise RunFailed(_unanswered(noted, "an earlier run"))
    still = _cancel(build, found, _END) if found else []
    batch_jobs.replace(build, map(_given_up, still))
    lines = [f"{_counted(found)} cancelled"] if found else []
    return [*lines, *([f"still in the queue after {_END:.0f} s: {_ids(still)}"] if still else [])]


def stay(build: Path) -> str | None:
    """Return what to say of jobs that go on when Snakemake was killed."""
    noted = batch_jobs.read(build)
    own = sum(not one.pilot for one in noted)
    lines = []
    if own and not all(sites.lists_jobs(one.system) for one in noted):
        lines.append(_unanswered(noted, "this run"))
    elif own:
        lines.append(
            f"{_jobs(own)} may still be in the queue: the same command takes them over, "
            "with --cancel it cancels them"
        )
    if len(noted) > own:
        lines.append("pilots end within a minute, with their jobs: run the same command again")
    return "\n".join(lines) or None


def _cancel(build: Path, jobs: Collection[Left], seconds: float) -> list[Left]:
    """Cancel jobs, and wait until they are gone; return those that are still there."""
    for system in _systems(jobs):
        ids = [
            left.queued.batch_id
            for left in jobs
            if left.job.system == system and left.queued.state != "ending"
        ]
        for start in range(0, len(ids), _AT_ONCE):
            ask(sites.system(system).cancel(ids[start : start + _AT_ONCE]))

    def still() -> list[Left]:
        queued = {system: sites.system(system).queued(build) for system in _systems(jobs)}
        return [left for left in jobs if _is_among(left, queued[left.job.system])]

    return until(still, seconds=seconds, pause=_PAUSE, enough=operator.not_)


def _systems(jobs: Iterable[Left]) -> list[str]:
    return list(dict.fromkeys(left.job.system for left in jobs))


def _is_among(left: Left, queued: Iterable[Queued] | None) -> bool:
    """Whether a job is in the queue, as far as is known."""
    return queued is None or left.queued.batch_id in {one.batch_id for one in queued}


def _given_up(left: Left) -> BatchJob:
    """Return a job as it is noted that must not be taken over."""
    return replace(left.job, signature="")


def _nowhere(job: BatchJob) -> Queued:
    return sites.Queued(job.batch_id, job.name, "running", "")


def _goes_on(jobs: Collection[Left]) -> str:
    waiting = sum(left.queued.state == "waiting" for left in jobs)
    running = len(jobs) - waiting
    states = [f"{running} running"] * bool(running) + [f"{waiting} waiting"] * bool(waiting)
    verb = "goes" if len(jobs) == 1 else "go"
    return f"{_jobs(len(jobs))} of an earlier run {verb} on: {', '.join(states)}"


def _unanswered(noted: Iterable[BatchJob], whose: str) -> str:
    texts = []
    for system in dict.fromkeys(one.system for one in noted):
        ids = [one.batch_id for one in noted if one.system == system and one.batch_id]
        if sites.lists_jobs(system):
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


def _ids(jobs: Iterable[Left]) -> str:
    return ", ".join(left.queued.batch_id for left in jobs)


def _own(jobs: Iterable[Left]) -> list[Left]:
    return [left for left in jobs if not left.job.pilot]


def _pilots(jobs: Iterable[Left]) -> list[Left]:
    return [left for left in jobs if left.job.pilot]


def _counted(jobs: Collection[Left]) -> str:
    """Return how many jobs these are, and how many pilots."""
    own, pilots = len(_own(jobs)), len(_pilots(jobs))
    found = [_jobs(own)] if own else []
    found += [f"{pilots} pilot{'s' if pilots != 1 else ''}"] if pilots else []
    return " and ".join(found)


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def _were(jobs: Collection[Left]) -> str:
    return "was" if len(jobs) == 1 else "were"
