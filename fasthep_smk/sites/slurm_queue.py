"""What Slurm says of jobs: which are in its queue, how they are, and how they have ended.

All of it is read of ``squeue``, and of ``sacct`` where there is accounting.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fasthep_smk.sites import BatchState, Queued, QueueState, System
from fasthep_smk.sites.commands import ask, number, order
from fasthep_smk.util.files import read_plain
from fasthep_smk.util.processes import in_words

#: Slurm's words for jobs that do not run: pending, or ended and not yet gone.
_STATES: Mapping[str, QueueState] = {"PENDING": "waiting", "COMPLETING": "ending"}
#: And for those that have not ended well; what is none of these, or not known, goes on
#: (squeue(1), "JOB STATE CODES").
_FAILED = frozenset({
    "BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "RECONFIG_FAIL", "TIMEOUT",
})  # fmt: skip
#: Of these, what befalls a job: it made way for another one, or its node has failed.
_LOST = frozenset({"BOOT_FAIL", "LAUNCH_FAILED", "NODE_FAIL", "PREEMPTED", "RECONFIG_FAIL"})
#: So many jobs are asked for in one command, which has so many seconds.
_AT_ONCE, _PATIENCE = 500, 60

#: Why jobs are pending that do not start by themselves (squeue(1), "JOB REASON CODES").
_FOR_EVER = re.compile(
    "JobHeld|JobHold|BadConstraints|Invalid|DependencyNeverSatisfied|Partition(Config|Down|Inactive"
    "|NodeLimit|TimeLimit)|AccountNotAllowed|QOSNotAllowed|(QOS|Assoc)Max.*PerJob|NodeDown$"
)
_REQUEUED = "put back into the queue after a start (node failed, preempted or requeued)"
_NO_JOB = re.compile(r"invalid job id", re.IGNORECASE)
_NO_ACCOUNTS = re.compile(r"accounting storage is disabled|there is no sacct", re.IGNORECASE)


@dataclass(frozen=True)
class _Listed:
    """What squeue says of a job; of one in an array, ``job`` is 17_3."""

    job: str
    state: str
    reason: str
    restarts: str
    node: str
    partition: str
    submitted: str
    name: str
    folder: str

    @property
    def held(self) -> bool:
        return self.reason.startswith("JobHeld")

    @property
    def is_new(self) -> bool:
        """Whether it has never started, here or on another node."""
        return (self.restarts, self.node) == ("0", "")

    @property
    def waits(self) -> bool:
        return self.state == "PENDING" and self.is_new

    @property
    def has_ended(self) -> bool:
        return self.state == "COMPLETED" or self.state in _FAILED


#: The columns of squeue that these are; the name, which may hold anything, and the folder last.
_COLUMNS = (
    "JobArrayID", "State", "Reason", "RestartCnt", "NodeList", "Partition", "SubmitTime", "Name",
    "WorkDir",
)  # fmt: skip


def _listed(*options: str) -> list[_Listed] | None:
    """Return the user's jobs, in any state, also in partitions that the site hides.

    ``None`` if Slurm does not answer.
    """
    columns = ",".join(f"{name}:|" for name in _COLUMNS)
    words = ["squeue", "--noheader", "--all", "--states=all", f"--user={os.getuid()}"]
    text = ask([*words, *options, f"-O{columns}"], {"SLURM_TIME_FORMAT": "%s"}, seconds=_PATIENCE)
    if text is None:
        return None
    lines = (
        line.rstrip().removesuffix("|").split("|", len(_COLUMNS) - 1) for line in text.splitlines()
    )
    return [_Listed(*map(str.strip, fields)) for fields in lines if len(fields) == len(_COLUMNS)]


class SlurmQueue(System):
    """What Slurm says of the jobs of a user, and how they are held and withdrawn."""

    def queued(self, folder: Path) -> list[Queued] | None:
        """Return the user's jobs that were submitted from a folder, an array as one."""
        listed = _listed()
        if listed is None:
            return None
        jobs = []
        for entry in listed:
            job = entry.job.partition("_")[0]
            if job.isdigit() and not entry.has_ended and _is_same(entry.folder, folder):
                at = f"partition {entry.partition}"
                held = entry.state == "PENDING" and _FOR_EVER.match(entry.reason) is not None
                state = _STATES.get(entry.state, "running")
                again = entry.state == "PENDING" and entry.restarts not in ("", "0")
                reason = f"{entry.reason}; {_REQUEUED}" if again else entry.reason
                jobs.append(Queued(job, entry.name, state, at, reason, held))
        return jobs

    def arrived(self, folder: Path, name: str, since: float) -> list[str] | None:
        """Return the ids of jobs of a name that were submitted from a folder since a time."""
        listed = _listed()
        if listed is None:
            return None
        named = [
            entry for entry in listed if entry.name == name and number(entry.submitted) >= since
        ]
        return sorted((entry.job for entry in named if _is_same(entry.folder, folder)), key=number)

    def hold(self, jobs: Iterable[str]) -> Mapping[str, bool | None]:
        """Put pending jobs on hold; return which are, never having started. ``None``: unknown.

        Source: scontrol(1). It holds running jobs, too, for when they are requeued: those are let
        go.
        """
        jobs = list(jobs)
        by_id = _by_id(jobs)
        if waiting := [job for job, line in by_id.items() if line and line.waits]:
            ask(["scontrol", "hold", ",".join(waiting)])
            by_id = _by_id(jobs)
        started = [
            job for job, line in by_id.items() if line and line.held and line.state == "RUNNING"
        ]
        if started:
            ask(["scontrol", "release", ",".join(started)])
        return {
            job: None if line is None or (line.waits and not line.held) else line.waits
            for job, line in by_id.items()
        }

    def withdraw(self, jobs: Iterable[str]) -> Mapping[str, bool | None]:
        """Cancel jobs on hold; return which are gone without having started. ``None``: unknown.

        Source: scancel(1).
        """
        jobs = list(jobs)
        if not jobs:
            return {}
        ask(["scancel", "--state=PENDING", *jobs])
        by_id = _by_id(jobs)
        return {job: None if entry is None else _is_gone(entry) for job, entry in by_id.items()}

    def fate(self, job: str) -> str | None:
        """Return how Slurm says a job ended: state, reason, exit code, node and its last word."""
        text = ask(["scontrol", "show", "job", "--oneliner", job])
        if text is None:  # the controller forgets a job some minutes after its end
            accounted = ask(_sacct(job, "State,ExitCode,NodeList")) or ""
            state, code, node = (*accounted.partition("\n")[0].split("|"), "", "", "")[:3]
            return _state(state, code=code, node=node).said if state else None
        fields = dict(item.partition("=")[::2] for item in text.split())
        state = fields.get("JobState", "unknown state")
        code, node = fields.get("ExitCode", ""), fields.get("NodeList", "")
        ending = _state(state, fields.get("Reason", ""), code, node).said
        word = _last_word(text)
        return f"{ending}: {word}" if word else ending


def status(
    jobs: Iterable[str], folder: Path, _since: float = 0.0, *, cluster: object = None
) -> dict[str, BatchState]:
    """Return what is known now of jobs that were submitted from a folder, by their ids.

    The controller has the last word on what it lists: it alone knows what is requeued. Of the
    others accounting tells how they have ended, if there is accounting. A command that fails or is
    slow is no answer. Without a ``cluster`` they are in the one here, or in its federation.
    Sources: squeue(1), "JOB STATE CODES"; sacct(1), "DEFAULT TIME WINDOW" and "--duplicates".
    """
    wanted = set(jobs)
    where = f"--clusters={cluster}" if cluster else "--federation"
    each = ["--array"] if any("_" in job for job in wanted) else []
    listed = _listed(where, *each)
    states = {
        entry.job: _state(entry.state, entry.reason, node=entry.node)
        for entry in listed or ()
        if entry.job in wanted and _is_same(entry.folder, folder)
    }
    left = sorted(wanted - states.keys())
    accounted = _accounts(left, folder, where)
    if listed is None:  # it may be requeued: that it is done is all that accounting can say alone
        return {job: state for job, state in (accounted or {}).items() if state.kind == "done"}
    if accounted is not None:  # one that is under way there has ended, or is lost
        states |= {
            job: accounted[job]
            if job in accounted and accounted[job].kind != "alive"
            else BatchState("gone")
            for job in left
        }
    return states


def _accounts(jobs: Sequence[str], folder: Path, where: str) -> dict[str, BatchState] | None:
    """Return what accounting says of jobs, nothing without it; ``None`` if it does not answer.

    Of a number that was used twice, it names the last job.
    """
    states: dict[str, BatchState] = {}
    for first in range(0, len(jobs), _AT_ONCE):
        ids = ",".join(jobs[first : first + _AT_ONCE])
        columns = "JobID,State,ExitCode,NodeList,WorkDir"
        answer = order(_sacct(ids, columns, where), seconds=_PATIENCE)
        if not answer.well:
            return {} if _NO_ACCOUNTS.search(answer.problem) else None
        for line in answer.text.splitlines():
            job, state, code, node, from_where = (*line.split("|", 4), *[""] * 4)[:5]
            if state and _is_same(from_where, folder):
                states[job] = _state(state, code=code, node=node)
    return states


def _sacct(jobs: str, columns: str, where: str = "--federation") -> list[str]:
    words = ["sacct", "--allocations", "--parsable2", "--noheader", f"--user={os.getuid()}"]
    return [*words, where, f"--jobs={jobs}", f"--format={columns}"]


def _state(state: str, reason: str = "", code: str = "", node: str = "") -> BatchState:
    """Return what a state means, as in ``CANCELLED by 1000`` or ``CANCELLED+``."""
    word = (state.split() or [""])[0].rstrip("+")
    node = "" if node.startswith(("(", "None")) else node
    kind: Literal["done", "failed", "alive"] = "failed" if word in _FAILED else "alive"
    return BatchState(
        "done" if word == "COMPLETED" else kind,
        _words(state, reason, code, node),
        node=node,
        shut=reason in ("PartitionDown", "PartitionInactive"),
        lost=word in _LOST,
    )


def _words(state: str, reason: str, code: str, node: str) -> str:
    text = f"Slurm: {state}" + (f", {reason}" if reason not in ("None", "") else "")
    if code not in ("0:0", ""):
        text += f", {_in_words(code)}"
    return f"{text}, node {node}" if node else text


def _by_id(jobs: list[str]) -> dict[str, _Listed | None]:
    """Return what squeue says of jobs; ``None`` of all if it does not answer, nothing of others."""
    listed = _listed("--array") if jobs else []
    if listed is None:
        return dict.fromkeys(jobs)
    by_id = {entry.job: entry for entry in listed}
    return {job: by_id.get(job, _NOT_LISTED) for job in jobs}


#: Of a job that squeue does not list.
_NOT_LISTED = _Listed(*[""] * len(_COLUMNS))


def _is_gone(job: _Listed) -> bool | None:
    """Whether a job that was on hold has left the queue; Slurm forgets it some time later."""
    if job.waits:
        return None
    return not job.state or (job.state == "CANCELLED" and job.is_new)


def is_unknown(job: str) -> bool:
    """Whether the controller says that it has no such job; an empty list of squeue's says less.

    It forgets jobs some minutes after their end, and all that it has not written down if it dies.
    """
    answer = order(["scontrol", "--all", "show", "job", "--oneliner", job])
    return not answer.well and _NO_JOB.search(answer.problem) is not None


def _is_same(where: str, folder: Path) -> bool:
    if Path(where) == folder:
        return True
    try:
        return Path(where).resolve() == folder.resolve()
    except (OSError, ValueError):  # no file can have this name
        return False


def _in_words(code: str) -> str:
    """Return an exit code of Slurm's; a shell makes 128 and more of a signal."""
    status, _, killed_by = code.partition(":")
    signal = number(killed_by) or max(number(status) - 128, 0)
    return f"exit code {code}" + (f", {in_words(-signal)}" if signal else "")


def _last_word(record: str) -> str | None:
    """Return what Slurm wrote into a job's log when it killed it.

    The job's state does not say it: the plugin runs jobs as steps, and of what happens to a step
    the state has the exit code only.
    """
    path = re.search(r"StdErr=(.+?)(?: Std\w+=| Power=|$)", record, re.MULTILINE)
    try:
        text = read_plain(Path(path[1])).decode(errors="replace") if path else ""
    except (OSError, ValueError):  # the name is not one of a file
        return None
    match = re.search(r"^slurmstepd\S*: error: (?:\*\*\* )?(.+?)(?: \*\*\*)?$", text, re.MULTILINE)
    return match[1] if match else None
