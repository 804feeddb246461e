"""A bundle: jobs of one rule, one after the other, each as if it were started alone.

Each runs in a process of its own, forked from this one, which has everything imported: what it
takes is its own, and one that is killed or fails leaves the others alone. A bundle that is tried
again passes over what is done.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fasthep_smk import files, layout, markers
from fasthep_smk.worker.process import (
    LOG,
    MODULES,
    ONE_THREAD,
    has_one_thread,
    import_for_good,
    live_as,
)

__all__ = ["run_bundle"]


def run_bundle(
    build: Path,
    rule: str,
    bundle: Mapping[str, Any],
    run_one: Callable[[str], int],
    is_done: Callable[[str], bool],
    *,
    attempt: int,
    threads: int,
    warm: bool,
    command: Callable[[str], Sequence[str]],
) -> int:
    """Run the jobs of a bundle, by its entry in the task table; return the exit status.

    ``run_one`` runs a job, by its key, and returns its exit status; ``is_done`` tells whether it
    has its record. ``command`` is the same as a command, for a process that cannot be forked. After
    a job that failed, the others still run.
    """
    if threads == 1:
        for name, value in ONE_THREAD.items():
            os.environ.setdefault(name, value)
    import_for_good(MODULES)
    failed, own_log = [], os.environ.get(LOG)
    for key in bundle["jobs"]:
        with _log(build, rule, key, attempt) as (stream, again):
            os.environ[LOG] = again
            if has_one_thread():
                status = _forked(partial(run_one, key), stream)
            else:
                status = subprocess.run(command(key), stdout=stream, stderr=stream).returncode
        # An operation may end the process, and call that a success.
        if status != 0 or not is_done(key):
            failed.append(key)
            print(f"{rule} {key}: failed ({_fate(status)})", file=sys.stderr, flush=True)
    if failed:
        return 1
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = {
        "memory": used.ru_maxrss * 1024,
        "cpu": round(used.ru_utime + used.ru_stime, 3),
        "warm": warm,
    }
    files.write_text(build / bundle["marker"], markers.text(bundle["signature"], took))
    if own_log:
        (build / own_log).unlink(missing_ok=True)
    return 0


@contextlib.contextmanager
def _log(build: Path, rule: str, key: str, attempt: int) -> Any:
    """Open a job's log; the log of a failed attempt keeps a name of its own, as ever."""
    path = build / layout.log(rule, key.split("/"))
    path.parent.mkdir(parents=True, exist_ok=True)
    again = path.with_suffix(f".attempt{attempt}.log")
    path.unlink(missing_ok=True)
    with path.open("wb") as stream:
        again.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # no hard links here: one name must do
            again.hardlink_to(path)
        yield stream, str(again.relative_to(build))


def _forked(run: Callable[[], int], stream: Any) -> int:
    """Run in a forked process; return its exit status, negative for a signal."""
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        live_as(run, parent, [stream.fileno()] * 2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _fate(status: int) -> str:
    if status >= 0:
        return f"status {status}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-status).name
    return f"signal {-status}"
