"""What is in a build folder: jobs done, running, failed and to do; who runs; disk.

Everything is read from the folder itself. Nothing is compiled or changed, and neither FAST-HEP nor
Snakemake is imported, so that it can be asked as often as one likes.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from tabulate import tabulate

from fasthep_smk import sites
from fasthep_smk.storage import batch_jobs, damage, failures, layout, missing_report, run_lock
from fasthep_smk.storage.disk_usage import KINDS, Amount, Survey, freed_by, survey
from fasthep_smk.storage.jobs import (
    STATES,
    State,
    TaskJob,
    fallbacks,
    find_build,
    head_of,
    is_done,
    read_jobs,
    state_of,
)
from fasthep_smk.storage.queue import Left, find
from fasthep_smk.storage.record import Record
from fasthep_smk.storage.retention import cleanable
from fasthep_smk.storage.run_lock import LockNote
from fasthep_smk.util import files
from fasthep_smk.util.names import printable
from fasthep_smk.util.units import about_bytes

#: How many failed jobs and jobs of a batch system are shown, and how much of each.
_FAILED, _IN_QUEUE, _WIDTH = 10, 20, 160


@dataclass(frozen=True)
class Status:
    """A build folder at one moment. ``states`` are those of the jobs, by their folders.

    ``run`` says who works on it; ``freeable`` is what
    ``fasthep-smk clean`` would delete: nothing as long as a run does. ``damaged`` are files of
    finished jobs, and how; ``None`` if they were not looked at. ``queue`` are the jobs that a batch
    system has; ``None`` if it does not answer. ``moved`` is how many jobs have waited for a pool in
    vain and ran in another: by rule, the one, the other.
    """

    build: Path
    jobs: list[TaskJob]
    states: Mapping[str, State]
    failed: list[failures.Failure]
    run: LockNote | None
    disk: Survey
    freeable: dict[str, Amount]
    damaged: dict[str, str] | None = None
    queue: list[Left] | None = field(default_factory=list)
    moved: Mapping[tuple[str, str, str], int] = field(default_factory=dict)


def do_status(options: argparse.Namespace) -> int:
    """Print the status of a build folder; return 1 if files of finished jobs are damaged.

    Raises:
        Findings: as `look`.
    """
    status = look(options.build, verify=options.verify)
    if options.json:
        print(json.dumps(as_data(status), indent=1))
    else:
        print(as_text(status), end="")
    return int(bool(status.damaged))


def look(folder: Path, *, verify: bool = False) -> Status:
    """Return the status of a build folder; to ``verify`` it, all files of finished jobs are read.

    Raises:
        Findings: it is no build folder, or its task tables cannot be read.
    """
    build = find_build(folder)
    run = run_lock.holder(build)
    jobs, states, failed = states_of(build, run, failures.read_all(build))
    disk = survey(build, jobs, done=[path for path, state in states.items() if state == "done"])
    return Status(
        build=build,
        jobs=jobs,
        states=states,
        failed=failed,
        run=run,
        disk=disk,
        freeable=freed_by(cleanable(disk) if jobs and run is None else {}),
        damaged=_damaged(build, states) if verify else None,
        queue=find(build),
        moved=_moved(build, [job for job in jobs if states[job.folder] == "done"]),
    )


def states_of(
    build: Path, run: LockNote | None, notes: Iterable[failures.Failure]
) -> tuple[list[TaskJob], dict[str, State], list[failures.Failure]]:
    """Return the jobs of a build folder, their states by folder, and the notes of failed ones."""
    jobs, by_job = read_jobs(build), {(note.rule, note.key): note for note in notes}
    states = {
        job.folder: state_of(is_done(build, job), by_job.get((job.rule, job.key)), run)
        for job in jobs
    }
    failed = [by_job[job.rule, job.key] for job in jobs if states[job.folder] == "failed"]
    return jobs, states, failed


def _moved(build: Path, done: list[TaskJob]) -> Counter[tuple[str, str, str]]:
    pools = fallbacks(build)
    heads = [(job.rule, head_of(build, job)) for job in done if job.rule in pools]
    waited = [(rule, head.waited_for) for rule, head in heads if head]
    return Counter((rule, pool, pools[rule]) for rule, pool in waited if pool)


def _damaged(build: Path, states: Mapping[str, State]) -> dict[str, str]:
    """Return the damaged files of finished jobs; products may be gone: they are made again."""
    records, damaged = {}, {}
    for folder in [folder for folder, state in states.items() if state == "done"]:
        path = f"{folder}/{layout.RECORD}"
        try:
            records[folder] = cast("Record", files.unseal(files.read_plain(build / path)))
        except FileNotFoundError:
            continue  # a run has just removed it
        except (OSError, files.Altered) as error:
            damaged[path] = f"is damaged ({error})"
    for results in damage.of_results(build, records, content=True).values():
        damaged |= results
    products = damage.of_products(build, records, content=True)
    return damaged | {path: how for path, how in products.items() if how != damage.GONE}


def as_text(status: Status) -> str:
    """Return the status as lines for a person."""
    parts = (
        _rules(status),
        _elsewhere(status),
        missing_report.reported(status.build),
        _run(status),
        _queue(status),
        _failed(status.failed),
        _verified(status.damaged),
        _disk(status),
    )
    return "\n\n".join(part for part in parts if part) + "\n"


def as_data(status: Status) -> dict[str, object]:
    """Return the status as plain data; sizes are in bytes."""
    run = status.run
    return {
        "build": str(status.build),
        "rules": [{"rule": rule, **counts} for rule, counts in _counts(status).items()],
        "moved": [
            {"rule": rule, "waited_for": pool, "pool": to, "jobs": count}
            for (rule, pool, to), count in status.moved.items()
        ],
        "run": run and {"host": run.host, "pid": run.pid, "since": run.since},
        "incomplete": bool(missing_report.reported(status.build)),
        "sample": missing_report.is_sample(status.build),
        "queue": None if status.queue is None else [_in_queue(left) for left in status.queue],
        "failed": [failure_as_data(note) for note in status.failed],
        **({} if status.damaged is None else {"damaged": status.damaged}),
        "disk": {kind: _plain(status.disk.usage[kind]) for kind in KINDS},
        "total": _plain(status.disk.total),
        "clean": {name: _plain(amount) for name, amount in status.freeable.items()},
    }


def failure_as_data(note: failures.Failure) -> dict[str, object]:
    """Return a failed job as plain data; its log is relative to the build folder."""
    names = ("rule", "key", "kind", "problem", "stage", "dataset", "file")
    return {**{name: getattr(note, name) for name in names}, "log": str(failures.log_of(note))}


def _counts(status: Status) -> dict[str, dict[str, int]]:
    """Return how many jobs of each rule are in each state."""
    counts: dict[str, Counter[str]] = {}
    for job in status.jobs:
        counts.setdefault(job.rule, Counter())[status.states[job.folder]] += 1
    return {
        rule: {**{state: by_state[state] for state in STATES}, "total": by_state.total()}
        for rule, by_state in counts.items()
    }


def _rules(status: Status) -> str:
    counts = _counts(status)
    if not counts:
        return f"no workflow has been translated in {status.build} yet"
    rows = [[rule, *by_state.values()] for rule, by_state in counts.items()]
    if len(rows) > 1:
        columns = zip(*(by_state.values() for by_state in counts.values()), strict=True)
        rows.append(["all", *map(sum, columns)])
    return tabulate(rows, headers=["rule", *STATES, "total"])


def _elsewhere(status: Status) -> str:
    """Return how many jobs ran in another pool than the one that they have waited for."""
    return "\n".join(
        f"{count} of {rule} ran in pool {to}, after waiting too long for pool {pool}"
        for (rule, pool, to), count in status.moved.items()
    )


def _run(status: Status) -> str:
    if (run := status.run) is None:
        return "no run in progress"
    return f"run in progress: process {run.pid} on {run.host}, since {run.since}"


def _listed(what: str, lines: list[str], most: int) -> list[str]:
    """Return how many of something there are, with the first lines of their list, each cut."""
    many = "s" if len(lines) != 1 else ""
    shown = [line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..." for line in lines[:most]]
    more = [f"    ... and {len(lines) - most} more"] if len(lines) > most else []
    return [f"{len(lines)} {what.format(many)}:", *map(printable, shown), *more]


def _in_queue(left: Left) -> dict[str, str]:
    """Return a job in the queue as plain data."""
    job, queued = left.job, left.queued
    return {
        "rule": job.rule,
        "key": job.key,
        **({"pilot_of_pool": job.pilot} if job.pilot else {}),
        "system": job.system,
        "batch_job": queued.batch_id,
        "state": queued.state,
        "where": queued.where,
        "reason": queued.reason,
    }


def _unknown_queue(build: Path) -> str:
    """Return in words why it is not known which jobs of a build folder are in a queue."""
    noted = batch_jobs.read(build)
    silent = [job for job in noted if not sites.system(job.system).LISTS_JOBS]
    if not silent:
        return "the batch system does not answer: its queue is not known"
    ids = ", ".join(job.batch_id for job in silent if job.batch_id)
    return f"{sites.unknown(silent[0].system)}; submitted jobs that may still run: {ids}"


def _queue(status: Status) -> str:
    """Return the jobs of the batch system: their numbers, and why they wait."""
    if status.queue is None:
        return _unknown_queue(status.build)
    if not status.queue:
        return ""
    lines = []
    for left in status.queue:
        queued = left.queued
        state = f"{queued.state} ({queued.reason})" if queued.state == "waiting" else queued.state
        name = f"pilot of pool {left.job.pilot}" if left.job.pilot else queued.name
        lines.append(f"    {left.job.system} job {queued.batch_id}: {name}: {state}")
    lines = _listed("job{} in the queue", lines, _IN_QUEUE)
    if status.run is None and any(not left.job.pilot for left in status.queue):
        lines.append("the next run takes over the jobs it needs; 'fasthep-smk cancel' cancels all")
    return "\n".join(lines)


def _failed(failed: list[failures.Failure]) -> str:
    lines = [
        f"    {note.rule} {note.key}".rstrip() + f": {failures.in_short(note)}" for note in failed
    ]
    return "\n".join(_listed("job{} failed", lines, _FAILED)) if lines else ""


def _verified(damaged: Mapping[str, str] | None) -> str:
    if not damaged:
        return "" if damaged is None else "all files of finished jobs are unchanged"
    lines = [f"    {name} {how}" for name, how in damaged.items()]
    listed = _listed("file{} of finished jobs damaged", lines, len(lines))
    return "\n".join([*listed, "'fasthep-smk WORKFLOW --verify' makes these files again"])


def _disk(status: Status) -> str:
    usage = {kind: amount for kind in KINDS if (amount := status.disk.usage[kind]).files}
    rows = [
        [kind, about_bytes(amount.size), amount.files]
        for kind, amount in (*usage.items(), ("together", status.disk.total))
    ]
    table = tabulate(rows, headers=["disk", "size", "files"], colalign=("left", "right", "right"))
    if status.run is not None:
        return table
    freed = sum(status.freeable.values(), Amount())
    if not freed.files:
        return f"{table}\n\nnothing to clean"
    return f"{table}\n\nfasthep-smk clean frees {about_bytes(freed.size)} in {freed.files} files"


def _plain(amount: Amount) -> dict[str, int]:
    return {"bytes": amount.size, "files": amount.files}
