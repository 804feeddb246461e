"""Which attempt of a failed job comes next: none without more memory than one that lacked it.

Such an attempt would be submitted, and wait in a queue, only to say that it is not made. A job that
starts all the same, where a plain Snakemake has sent it, says so itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk import sites
from fasthep_smk.executors.fallback import number
from fasthep_smk.storage import failures, layout
from fasthep_smk.storage.job_settings import attempts_of, read_measuring, read_requests
from fasthep_smk.storage.task_table import TaskTable
from fasthep_smk.util.errors import SmkError
from fasthep_smk.util.snakemake_types import SnakemakeJob

if TYPE_CHECKING:
    from fasthep_smk.storage.record import Asked

__all__ = ["pass_over_hopeless", "skip_hopeless"]

_NOT_AGAIN = "; not tried again: no other attempt would have more"


def skip_hopeless(job: SnakemakeJob) -> None:
    """Pass over hopeless attempts of a job that has failed; Snakemake has not heard of it yet."""
    # What cannot be read says nothing: the next attempt is made.
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, SmkError):
        pass_over_hopeless(job, Path())


def pass_over_hopeless(job: SnakemakeJob, build: Path) -> None:
    """Set the attempt of a failed job to the one before the next that may have enough memory."""
    place = layout.place_of_log(str(next(iter(job.log), "")))
    if job.is_group() or not place or job.attempt > job.restart_times:
        return
    rule, key = place
    requests = read_requests(build)
    fate = sites.system(requests["system"]).fate
    notes = _notes(build, rule, key, job.attempt)
    died = [(note, failures.earlier(build, rule, note.key, fate)[-1]) for note in notes]
    if not died or any(last["kind"] != "memory" or not last.get("memory") for _, last in died):
        return
    had = max(last.get("memory") or 0 for _, last in died)
    if _can_have_more(build, rule, had):
        return
    better = _first_with_more(job, attempts_of(requests, rule, key), had)
    if better is None:
        job.attempt = job.restart_times + 1
        for note, last in died:
            problem = f"{last['problem']}{_NOT_AGAIN}"
            failures.note(build, replace(note, kind="memory", problem=problem))
    elif better - 1 != job.attempt:
        job.attempt = better - 1  # Snakemake counts the next one


def _can_have_more(build: Path, rule: str, had: int) -> bool:
    """Whether a job is measured, its pool says no amount, and there is a node with more."""
    try:
        said = read_measuring(build)[rule]
    except (OSError, KeyError):
        return False
    largest = said.get("largest") or [None] * len(said["most"])
    return any(
        "memory" in names and most.get("memory") is None and (node is None or had < node)
        for most, names, node in zip(said["most"], said["names"], largest, strict=True)
    )


def _notes(build: Path, rule: str, key: str, attempt: int) -> list[failures.Failure]:
    """Return the notes that a job has left at an attempt, or those of a bundle that are not done.

    Nothing, if one of these has left none: it has not run, or not to its end.
    """
    table = TaskTable.read(build, rule, key)
    keys = table.bundles[key].jobs if key in table.bundles else (key,)
    left = [one for one in keys if not (build / table.jobs[one].record).is_file()]
    notes = [failures.read(failures.path_of(build, rule, one)) for one in left]
    found = [note for note in notes if note is not None and note.attempt == attempt]
    return found if len(found) == len(left) else []


def _first_with_more(job: SnakemakeJob, attempts: Sequence[Asked], had: int) -> int | None:
    """Return the first later attempt that asks for more memory, or for nothing in particular."""
    elsewhere = number(job) - job.attempt
    for attempt in range(job.attempt + 1, job.restart_times + 2):
        memory = attempts[min(attempt + elsewhere, len(attempts)) - 1].get("memory")
        if memory is None or memory > had:
            return attempt
    return None
