"""A bundle: jobs of one rule, one after the other, each as if it were started alone.

They run in processes forked from this one, which has everything imported: what a job takes is its
own, and one that is killed or fails leaves the others alone. A bundle that is tried again passes
over what is done.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import IO

from fasthep_smk.storage import failures, layout
from fasthep_smk.storage.job_settings import keep_log
from fasthep_smk.storage.task_table import BundleEntry, marker_text
from fasthep_smk.util import files
from fasthep_smk.util.processes import ONE_THREAD
from fasthep_smk.worker.job import WorkerJob
from fasthep_smk.worker.job_end import DONE, End
from fasthep_smk.worker.processes import LOG, MODULES, has_one_thread, import_for_good
from fasthep_smk.worker.series import run_series


def run_bundle(
    bundle: BundleEntry,
    jobs: Mapping[str, WorkerJob],
    *,
    run: Callable[[WorkerJob], int],
    command: Callable[[str], list[str]],
    note: Callable[[WorkerJob, End], None],
) -> int:
    """Run the jobs of a bundle, by its entry in the task table; return the exit status.

    After a job that failed, the others still run. ``run`` runs one and returns its exit status;
    ``command`` runs one, by its key, in a process of its own. ``note`` says of one that its
    process ended badly.
    """
    first = jobs[bundle.jobs[0]]
    build, rule, sent = first.build, first.rule, first.sent
    if sent.threads == 1:
        for name, value in ONE_THREAD.items():
            os.environ.setdefault(name, value)
    import_for_good(MODULES)
    failed, memory, own_log = [], 0, os.environ.get(LOG)
    left = []
    for key in bundle.jobs:
        if jobs[key].is_done:  # its log tells how it went: it stays
            failures.clear(build, rule, key)
        else:
            left.append(key)
    while left:
        if has_one_thread():
            ends = run_series(left, lambda key: run(jobs[key]), lambda key: _log(jobs[key]))
        else:
            with _log(jobs[left[0]]) as stream:
                done = subprocess.run(command(left[0]), stdout=stream, stderr=stream)
            ends = [End(done.returncode, {DONE: ""})]  # it has noted itself what was wrong
        for key, end in zip(left, ends, strict=False):
            memory = max(memory, end.memory)
            if end.is_bad:
                note(jobs[key], end)
            if end.of_job != 0 or not jobs[key].is_done:
                failed.append(key)
                print(f"{rule} {key}: failed ({end})", file=sys.stderr, flush=True)
        left = left[len(ends) :]
    if failed:
        return 1
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = {
        "memory": max(memory, used.ru_maxrss * 1024),
        "cpu": round(used.ru_utime + used.ru_stime, 3),
        "warm": sent.warm,
    }
    files.write_text(build / bundle.marker, marker_text(bundle.signature, took))
    if own_log:
        (build / own_log).unlink(missing_ok=True)
    return 0


@contextlib.contextmanager
def _log(job: WorkerJob) -> Iterator[IO[bytes]]:
    """Open a job's log; the log of a failed attempt keeps a name of its own, as usual."""
    log = layout.log(job.rule, job.key.split("/"))
    path = job.build / log
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with path.open("wb") as stream:
        files.close_to_others(stream.fileno())
        os.environ[LOG] = keep_log(job.build, log, job.sent.attempt)
        yield stream
