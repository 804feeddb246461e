"""Whether a job that has failed is tried again: decided here, and nowhere else beside a run.

| cause | tried again | counts as an attempt | how often at most |
|---|---|---|---|
| ``lost``: by its batch system or node, preempted, never begun | yes | no | 5 |
| ``credential``: it has ended or was refused, and there is or will be another | yes | no | 20 |
| ``wanted`` so by a person | yes | no | |
| ``refused`` by the batch system, for good | no | | |
| memory or time | yes, if a later attempt may have more of it | yes | ``retries`` |
| anything else | yes | yes | ``retries`` |

A job that goes to its fallback has not failed (:mod:`fasthep_smk.executors.fallback`), nor has one
that the batch system has no room for. What is tried again at the same attempt is handed back to the
scheduler, which holds it while a credential has ended.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Literal

from fasthep_smk import sites
from fasthep_smk.executors.credential_gate import gate_of_run
from fasthep_smk.executors.fallback import number, sizes_of_run
from fasthep_smk.executors.read_as_text import MAY_PASS, REFUSED
from fasthep_smk.executors.sizes import Sizes, died_of
from fasthep_smk.plan.amounts import GROWING
from fasthep_smk.storage import failures, layout
from fasthep_smk.storage.job_settings import attempts_of, read_requests
from fasthep_smk.storage.task_table import TaskTable
from fasthep_smk.util.errors import SmkError
from fasthep_smk.util.snakemake_types import SnakemakeJob, Workflow

Cause = Literal["lost", "credential", "wanted", "refused", "error"]
#: How often a job is tried again that is not to blame.
_MOST: dict[Cause, int] = {"lost": 5, "credential": 20}
#: Which amount a job lacked, by how it died.
_AMOUNTS = {kind: name for name, kind in GROWING.items()}
_NOT_AGAIN = "; not tried again: no other attempt would get more"


def decide(cause: Cause, before: int = 0) -> Literal["same", "next", "none"]:
    """Return at which attempt a job is tried again that has failed.

    ``before`` is how often it has for the same cause.
    """
    if cause == "refused":
        return "none"
    return "same" if cause == "wanted" or before < _MOST.get(cause, 0) else "next"


class Retries:
    """Lets Snakemake try jobs again that have failed."""

    def __init__(self, workflow: Workflow, build: Path = Path()) -> None:
        self._workflow, self._build = workflow, build
        self._before: Counter[tuple[Cause, int]] = Counter()

    def settle(self, job: SnakemakeJob, cause: Cause = "error", said: str | None = None) -> bool:
        """Take in that a job has failed; return whether it is handed back at the same attempt.

        Else Snakemake is to be told. It tries the job again, at the next attempt that is not
        hopeless, or not at all. ``said`` is what it will be told.
        """
        if cause == "error":
            cause = self._cause(job, said or "")
        attempt = decide(cause, self._before[cause, job.jobid])
        self._before[cause, job.jobid] += 1
        if attempt == "same":
            self.hand_back(job)
        elif attempt == "none":
            job.attempt = job.restart_times + 1
        else:
            # What cannot be read says nothing: the next attempt is made.
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, SmkError):
                pass_over_hopeless(job, self._build, sizes_of_run())
        return attempt == "same"

    def hand_back(self, job: SnakemakeJob) -> None:
        """Give a job that is not under way any more back to the scheduler, at the same attempt."""
        job.attempt -= 1  # Snakemake counts the next one
        self._workflow.scheduler.error_callback(job)

    def _cause(self, job: SnakemakeJob, message: str) -> Cause:
        """Return why a job has failed, by what it has noted itself, or its batch system says.

        What is refused for an account, a partition or a wrong word would be refused at each
        attempt; a refusal that may pass leaves the other attempts.
        """
        if message.startswith(REFUSED):
            return "error" if MAY_PASS.search(message) else "refused"
        with contextlib.suppress(OSError, ValueError, KeyError, SmkError):
            members = getattr(job, "jobs", [job])  # of a group, some have not begun
            kinds = {note.kind for member in members for note in _notes(member, self._build)[2]}
            if kinds == {"credential"} and gate_of_run().others_come(job):
                return "credential"
        return "error"


def pass_over_hopeless(job: SnakemakeJob, build: Path, sizes: Sizes | None = None) -> None:
    """Set the attempt of a failed job to the one before the next that may have what it lacked.

    Any other would be submitted, wait in a queue, and end in the same way. ``sizes`` are those of
    jobs whose amounts may change.
    """
    rule, key, notes = _notes(job, build)
    if not notes or job.attempt > job.restart_times:
        return
    requests = read_requests(build)
    fate = sites.system(requests["system"]).fate
    died = [died_of(note, fate) for note in notes]
    lacked: dict[str, int] = {}
    for note in died:
        name = _AMOUNTS.get(note.kind)
        had = note.walltime if name == "walltime" else note.memory
        if name is None or not had:
            return
        lacked[name] = max(had, lacked.get(name, 0))
    attempts = attempts_of(requests, rule, key)

    def has_more(later: int, name: str, had: int) -> bool:
        asked = attempts[min(later, len(attempts)) - 1].get(name)
        if sizes is not None and sizes.changes(rule):
            asked = sizes.after(rule, key, later, name, had)
        return asked is None or int(str(asked)) > had

    elsewhere = number(job) - job.attempt
    for attempt in range(job.attempt + 1, job.restart_times + 2):
        if any(has_more(attempt + elsewhere, *item) for item in lacked.items()):
            job.attempt = attempt - 1  # Snakemake counts the next one
            return
    job.attempt = job.restart_times + 1
    for note in died:
        failures.note(build, replace(note, problem=f"{note.problem}{_NOT_AGAIN}"))


def _notes(job: SnakemakeJob, build: Path) -> tuple[str, str, list[failures.Failure]]:
    """Return rule and key of a job, and the notes that it has left at its attempt.

    Of a bundle those of its jobs that are not done. There are none, if one of these has left none:
    it has not run, or not to its end.
    """
    place = layout.place_of_log(str(next(iter(job.log), "")))
    if job.is_group() or not place:
        return "", "", []
    rule, key = place
    table = TaskTable.read(build, rule, key)
    keys = table.bundles[key].jobs if key in table.bundles else (key,)
    left = [job_key for job_key in keys if not (build / table.jobs[job_key].record).is_file()]
    notes = [failures.read(failures.path_of(build, rule, job_key)) for job_key in left]
    current = [note for note in notes if note is not None and note.attempt == job.attempt]
    return rule, key, current if len(current) == len(left) else []
