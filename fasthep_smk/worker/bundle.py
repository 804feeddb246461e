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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fasthep_smk.storage import failures, layout
from fasthep_smk.storage.job_settings import log_of_attempt
from fasthep_smk.storage.task_table import BundleEntry, marker_text
from fasthep_smk.util import files
from fasthep_smk.util.processes import ONE_THREAD
from fasthep_smk.worker.job import Sent
from fasthep_smk.worker.job_end import DONE, End
from fasthep_smk.worker.processes import LOG, MODULES, has_one_thread, import_for_good
from fasthep_smk.worker.series import Ended, run_series

__all__ = ["Means", "run_bundle"]


@dataclass(frozen=True)
class Means:
    """How the jobs of a bundle are run, each by its key.

    ``run`` returns the exit status; ``command`` is the same as a command, for a process that cannot
    be forked. ``is_done`` says whether a job has its record, and ``note`` that its process ended
    badly.
    """

    run: Callable[[str], int]
    command: Callable[[str], Sequence[str]]
    is_done: Callable[[str], bool]
    note: Callable[[str, End], None]


def run_bundle(build: Path, rule: str, bundle: BundleEntry, sent: Sent, means: Means) -> int:
    """Run the jobs of a bundle, by its entry in the task table; return the exit status.

    After a job that failed, the others still run.
    """
    if sent.threads == 1:
        for name, value in ONE_THREAD.items():
            os.environ.setdefault(name, value)
    import_for_good(MODULES)
    failed, memory, own_log = [], 0, os.environ.get(LOG)
    left = []
    for key in bundle.jobs:
        if means.is_done(key):  # its log tells how it went: it stays
            failures.clear(build, rule, key)
        else:
            left.append(key)
    while left:
        if has_one_thread():
            ended = run_series(left, means.run, lambda key: _log(build, rule, key, sent.attempt))
        else:
            with _log(build, rule, left[0], sent.attempt) as stream:
                done = subprocess.run(means.command(left[0]), stdout=stream, stderr=stream)
            ended = [Ended(End(done.returncode, {DONE: ""}))]  # it has noted itself what was wrong
        memory = max(memory, *(one.memory for one in ended))
        for key, (end, _) in zip(left, ended, strict=False):
            if end.is_bad:
                means.note(key, end)
            if end.of_job != 0 or not means.is_done(key):
                failed.append(key)
                print(f"{rule} {key}: failed ({end})", file=sys.stderr, flush=True)
        left = left[len(ended) :]
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
def _log(build: Path, rule: str, key: str, attempt: int) -> Iterator[IO[bytes]]:
    """Open a job's log; the log of a failed attempt keeps a name of its own, as usual."""
    log = layout.log(rule, key.split("/"))
    path, own = build / log, log_of_attempt(log, attempt)
    path.parent.mkdir(parents=True, exist_ok=True)
    again = build / own
    path.unlink(missing_ok=True)
    with path.open("wb") as stream:
        files.close_to_others(stream.fileno())
        again.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # no hard links here: one name must do
            again.hardlink_to(path)
        os.environ[LOG] = own
        yield stream
