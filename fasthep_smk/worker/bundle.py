"""A bundle: jobs of one rule, one after the other, each as if it were started alone.

They run in processes forked from this one, which has everything imported: what a job takes is its
own, and one that is killed or fails leaves the others alone. A bundle that is tried again passes
over what is done.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from fasthep_smk.storage import failures, layout
from fasthep_smk.storage.job_settings import keep_log
from fasthep_smk.storage.task_table import TaskTable, marker_text
from fasthep_smk.util import files
from fasthep_smk.util.processes import ONE_THREAD
from fasthep_smk.worker.job import Sent, WorkerJob
from fasthep_smk.worker.job_end import DONE, End
from fasthep_smk.worker.one_job import note_end_of, run_job
from fasthep_smk.worker.processes import LOG, MODULES, has_one_thread, import_for_good
from fasthep_smk.worker.series import run_series


def run_bundle(build: Path, table: TaskTable, name: str, sent: Sent, options: Sequence[str]) -> int:
    """Run the jobs of the bundle ``name``; return the exit status.

    After a job that failed, the others still run. With ``options``, a worker runs one of them alone
    in the same way.
    """
    bundle, rule = table.bundles[name], table.rule
    jobs = {
        key: WorkerJob(build, table, key, sent, bundle=name, marker=bundle.marker)
        for key in bundle.jobs
    }
    if sent.threads == 1:
        for variable, value in ONE_THREAD.items():
            os.environ.setdefault(variable, value)
    import_for_good(MODULES)
    failed, own_log = False, os.environ.get(LOG)
    left = [key for key in bundle.jobs if not jobs[key].is_done]
    for key in jobs.keys() - left:  # its log tells how it went: it stays
        failures.clear(build, rule, key)
    while left:
        if has_one_thread():
            ends = run_series(left, lambda key: run_job(jobs[key]), lambda key: _log(jobs[key]))
        else:
            command = [sys.executable, "-P", "-m", "fasthep_smk.worker", *options, "--", rule]
            with _log(jobs[left[0]]) as stream:
                done = subprocess.run([*command, *left[0].split("/")], stdout=stream, stderr=stream)
            ends = [End(done.returncode, {DONE: ""})]  # it has noted itself what was wrong
        for key, end in zip(left, ends, strict=False):
            if end.is_bad:
                note_end_of(jobs[key], end)
            if end.of_job != 0 or not jobs[key].is_done:
                failed = True
                print(f"{rule} {key}: failed ({end})", file=sys.stderr, flush=True)
        left = left[len(ends) :]
    if failed:
        return 1
    files.write_text(build / bundle.marker, marker_text(bundle.signature))
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
