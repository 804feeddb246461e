"""What HTCondor says of jobs: which are in its queue, how they are, and how they have ended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from fasthep_smk.sites import BatchState, Queued, QueueState, System
from fasthep_smk.sites.commands import ask, number
from fasthep_smk.util.documents import JsonObject

#: HTCondor's numbers for the states of a job.
_IDLE, RUNNING, _REMOVED, _COMPLETED, _HELD = 1, 2, 3, 4, 5
#: Why jobs are on hold for ever, by "HoldReasonCode" in HTCondor's manual: a rule of the job, the
#: machine or the site, what it transfers, memory and disk, an image, a container, time.
_FOR_EVER = frozenset({3, 21, 26, 32, 33, 34, 35, 45, 46, 47})
#: So many jobs are asked for in one command, which has so many seconds.
_ATONCE, _PATIENCE = 500, 60
#: One that has started once is removed when it would wait to start again.
ONCE = f"JobStatus == {_IDLE} && NumShadowStarts > 0"
#: What a job's record says of its end.
_OF_AN_END = (
    "JobStatus", "HoldReason", "LastHoldReason", "RemoveReason", "ExitSignal", "ExitCode",
    "NumShadowStarts",
)  # fmt: skip
#: And of how it is.
_OF_A_STATE = (
    *_OF_AN_END, "ClusterId", "HoldReasonCode", "EnteredCurrentStatus", "ExitBySignal",
)  # fmt: skip


class HTCondorQueue(System):
    """What HTCondor says of the jobs of a user, and how they are held and withdrawn."""

    def queued(self, folder: Path) -> list[Queued] | None:
        """Return the jobs that were submitted from a folder."""
        names = ("ClusterId", "JobStatus", "JobBatchName", "HoldReason", "LastRejMatchReason")
        ads = ads_of(["condor_q", "-constraint", f"Iwd == {_quoted(folder)}"], *names)
        return None if ads is None else [job for ad in ads if (job := _queued(ad))]

    def arrived(self, folder: Path, name: str, since: float) -> list[str] | None:
        """Return the ids of jobs of a name that were submitted from a folder since a time."""
        named = f"JobBatchName == {json.dumps(name)} && Iwd == {_quoted(folder)}"
        ids: list[str] = []
        for command in (["condor_history", *_ended_since(since)], ["condor_q"]):
            ads = ads_of(
                [*command, "-constraint", f"{named} && QDate >= {int(since)}"], "ClusterId"
            )
            if ads is None:
                return None
            ids += [str(ad["ClusterId"]) for ad in ads if "ClusterId" in ad]
        return sorted(set(ids), key=number)

    def hold(self, jobs: Iterable[str]) -> Mapping[str, bool | None]:
        """Put idle jobs on hold; return which are, never having started. ``None``: unknown.

        Source: condor_hold(1). The schedd looks at a job and holds it in one step: none is running.
        """
        jobs = list(jobs)
        if not jobs:
            return {}
        reason = "waited too long for its pool: moved to another pool"
        ask(["condor_hold", "-reason", reason, "-constraint", _that_wait(jobs, _IDLE)])
        states = _waiting(jobs)
        return {
            job: None
            if states is None or states.get(job) == (_IDLE, True)
            else states.get(job) == (_HELD, True)
            for job in jobs
        }

    def withdraw(self, jobs: Iterable[str]) -> Mapping[str, bool | None]:
        """Remove jobs on hold; return which are gone. ``None``: unknown.

        Source: condor_rm(1). Nothing but its removal ends a job that is on hold.
        """
        jobs = list(jobs)
        if not jobs:
            return {}
        ask(["condor_rm", "-constraint", _that_wait(jobs, _HELD)])
        states = _waiting(jobs)
        gone = {None: True, (_HELD, True): None, (_REMOVED, True): None}
        return {job: None if states is None else gone.get(states.get(job), False) for job in jobs}

    def fate(self, job: str) -> str | None:
        """Return how HTCondor says a job ended: why it was held or removed, or its exit code."""
        for command in (["condor_q", job], ["condor_history", "-limit", "1", job]):
            for ad in ads_of(command, *_OF_AN_END) or ():
                return f"HTCondor: {_ending(ad)}"
        return None


def _that_wait(jobs: Iterable[str], status: int) -> str:
    """Return the constraint of jobs that are in a state and have never started."""
    listed = ",".join(jobs)
    new = "(NumShadowStarts =?= undefined || NumShadowStarts == 0)"
    return f'member(string(ClusterId), split("{listed}", ",")) && JobStatus == {status} && {new}'


def _waiting(jobs: Iterable[str]) -> dict[str, tuple[int, bool]] | None:
    """Return of jobs in the queue the state, and whether they have never started."""
    ads = ads_of(["condor_q", *jobs], "ClusterId", "JobStatus", "NumShadowStarts")
    if ads is None:
        return None
    return {
        str(ad.get("ClusterId")): (number(str(ad.get("JobStatus"))), not ad.get("NumShadowStarts"))
        for ad in ads
    }


def status(jobs: Iterable[str], folder: Path, since: float = 0.0) -> dict[str, BatchState]:
    """Return what is known now of jobs that were submitted from a folder, by their ids.

    The queue is asked first, then the history of those that are in it no more. A command that fails
    or is slow is no answer.
    Sources: "Job ClassAd Attributes" in HTCondor's manual; condor_q(1); condor_history(1).
    """
    wanted = sorted(set(jobs), key=int)
    states: dict[str, BatchState] = {}
    for first in range(0, len(wanted), _ATONCE):
        chunk = wanted[first : first + _ATONCE]
        listed = _states(["condor_q"], chunk, folder)
        if listed is None:
            return states
        left = [job for job in chunk if job not in listed]
        past: dict[str, BatchState] | None = {}
        if left:
            history = ["condor_history", "-match", str(len(left)), *_ended_since(since)]
            past = _states(history, left, folder)
        states |= listed | (past or {})
        if past is not None:  # what the schedd has just written may be in neither
            states |= {job: BatchState("gone") for job in left if job not in past}
    return states


def _states(command: list[str], jobs: Sequence[str], folder: Path) -> dict[str, BatchState] | None:
    among = f"member(ClusterId, {{{','.join(jobs)}}}) && Iwd == {_quoted(folder)}"
    ads = ads_of([*command, "-constraint", among], *_OF_A_STATE)
    states = {str(ad.get("ClusterId")): _state(ad) for ad in ads or ()}
    return None if ads is None else {job: states[job] for job in jobs if job in states}


def _state(ad: JsonObject) -> BatchState:
    code, text = ad.get("JobStatus"), f"HTCondor: {_ending(ad)}"
    since = ad.get("EnteredCurrentStatus")
    since = float(since) if isinstance(since, int | float) else 0.0
    if code == _HELD:
        return BatchState(
            "failed" if ad.get("HoldReasonCode") in _FOR_EVER else "held", text, since
        )
    if code == _COMPLETED:
        well = ad.get("ExitCode") == 0 and not ad.get("ExitBySignal")
        return BatchState("done" if well else "failed", text, since)
    return BatchState("failed" if code == _REMOVED else "alive", text, since)


def _ended_since(since: float) -> list[str]:
    """Return the options by which the history is read back to a time, and no further."""
    return ["-since", f"EnteredCurrentStatus < {int(since)}"]


def _quoted(folder: Path) -> str:
    run = str(folder.resolve()).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{run}"'


def _queued(ad: JsonObject) -> Queued | None:
    """Return what an ad says; one that has ended is still shown for a moment."""
    status, name = ad.get("JobStatus"), str(ad.get("JobBatchName", ""))
    if status == _COMPLETED or not str(ad.get("ClusterId", "")).isdigit():
        return None
    state: QueueState = "running"
    reason = ""
    if status == _HELD:
        state, reason = "waiting", f"held: {ad.get('HoldReason', 'no reason given')}"
    elif status == _IDLE:
        rejection = str(ad.get("LastRejMatchReason", "")).strip()
        state, reason = "waiting", rejection or "not yet matched with a slot"
    elif status == _REMOVED:
        state = "ending"
    at, held = f"rule {name.partition(':')[0]}", status == _HELD
    return Queued(str(ad["ClusterId"]), name, state, at, reason, held)


def _ending(ad: JsonObject) -> str:
    status = ad.get("JobStatus")
    if status == _HELD:
        return f"held: {ad.get('HoldReason', 'no reason given')}"
    if status == _REMOVED:
        removed = f"removed: {ad.get('RemoveReason', 'no reason given')}"
        if ONCE in removed:
            return "evicted, or its machine was lost: it is not started again here"
        return f"held: {ad['LastHoldReason']}; {removed}" if "LastHoldReason" in ad else removed
    if status in (_IDLE, RUNNING):  # how it has ended before is no matter
        again = number(str(ad.get("NumShadowStarts", 0))) > (status == RUNNING)
        now = "waits" if status == _IDLE else "runs"
        return f"evicted from its machine, it {now} again" if again else f"it {now}"
    if "ExitSignal" in ad:
        return f"ended by signal {ad['ExitSignal']}"
    return f"exit code {ad['ExitCode']}" if "ExitCode" in ad else f"job status {status}"


def ads_of(command: list[str], *names: str) -> list[JsonObject] | None:
    """Return these attributes of all that a command lists; ``None`` if HTCondor does not answer."""
    text = ask([*command, "-json", "-attributes", ",".join(names)], seconds=_PATIENCE)
    if text is None:
        return None
    try:
        ads = json.loads(text) if text.strip() else []
    except (ValueError, RecursionError):
        return None
    return [ad for ad in ads if isinstance(ad, dict)] if isinstance(ads, list) else None
