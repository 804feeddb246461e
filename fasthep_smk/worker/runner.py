"""The job, or the bundle of jobs, that a command names."""

from __future__ import annotations

import argparse
import faulthandler
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk import sites
from fasthep_smk.storage import layout
from fasthep_smk.storage.job_settings import MOVED, attempts_of, heard, read_requests
from fasthep_smk.storage.task_table import TaskTable, UnreadableTable
from fasthep_smk.util import files, last_words
from fasthep_smk.worker.job import Sent, WorkerJob
from fasthep_smk.worker.job_end import DONE, End
from fasthep_smk.worker.one_job import note_end_of, run_job

if TYPE_CHECKING:
    from fasthep_smk.storage.record import Asked


def run(arguments: list[str], *, warm: bool = False) -> tuple[int, bool]:
    """Run a job or a bundle; return the exit status, and whether its process may run another job.

    That is so for one partition, or the sum of some: what draws or writes a user's files may leave
    a library as the next job must not find it. ``warm`` is for records: forked by a fork server.
    """
    faulthandler.enable(file=2)  # the stack of what a signal ends goes to the job's log
    faulthandler.register(signal.SIGUSR2, file=2, chain=True)  # also where its time is over
    files.close_to_others(1, 2)  # the job's log
    parsed, build = _parser().parse_args(arguments), Path.cwd()
    key = "/".join(parsed.place)
    may_stay = False
    try:
        table, sent = TaskTable.read(build, parsed.rule, key), _sent(build, parsed, warm)
    except (OSError, KeyError, ValueError, UnreadableTable) as error:
        print(f"no such job: {' '.join(arguments)} ({error})", file=sys.stderr)
        status = 2
    else:
        if table.bundles:
            from fasthep_smk.worker.bundle import run_bundle

            options = ["--attempt", parsed.attempt, "--threads", str(parsed.threads)]
            status = run_bundle(build, table, key, sent, options)
        else:
            status = run_job(WorkerJob(build, table, key, sent))
            may_stay = table.scope in ("partition", "merge")
    last_words.say(**{DONE: str(status)})
    return status, may_stay


def note_end(build: Path, arguments: list[str], end: End) -> None:
    """Say what a job's process died of, or what kept it from ending well after its work."""
    parsed = _parser().parse_args(arguments)
    key = "/".join(parsed.place)
    table = TaskTable.read(build, parsed.rule, key)
    if key in table.jobs:
        note_end_of(WorkerJob(build, table, key, _sent(build, parsed, False)), end)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="worker", description="Run one job in the build folder.")
    parser.add_argument("rule", help="the job's rule")
    parser.add_argument("place", nargs="*", help="the values of its wildcards")
    parser.add_argument("--attempt", default="1", help="how often it was tried, from 1")
    parser.add_argument("--threads", type=int, default=1, help="how many cpus it may use")
    return parser


def _sent(build: Path, parsed: argparse.Namespace, warm: bool) -> Sent:
    """Return how the job was sent out: its pool, the amounts asked for, its batch job.

    Raises:
        OSError, ValueError, KeyError: the translation says nothing of it.
    """
    number, own = heard(parsed.attempt)  # what this job alone has asked for
    moved, attempt = divmod(number, MOVED)
    requests = read_requests(build)
    attempts = attempts_of(requests, parsed.rule, "/".join(parsed.place))
    asked: Asked = {**attempts[min(number, len(attempts)) - 1], **own}
    submitted = os.environ.get(layout.SUBMITTED)
    return Sent(
        attempt,
        parsed.threads,
        asked,
        requests["system"],
        sites.system(requests["system"]).batch_job(),
        warm,
        tuple(requests["credentials"]),
        attempts[0].get("pool") if moved else None,
        in_pilot=layout.IN_PILOT in os.environ,
        submitted=float(submitted) if submitted else None,
    )
