"""Jobs one after the other in a forked process: a small one leaves it to the next.

To fork, and to copy the pages that are written to afterwards, takes as long as a small job does.
One that is killed takes no other along: the rest is forked anew.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import IO, NamedTuple

from fasthep_smk.util.last_words import LastWords, say
from fasthep_smk.worker.job_end import DONE, Before, End, wait_for
from fasthep_smk.worker.limits import count_from_here, peak_memory
from fasthep_smk.worker.processes import exit_status, live_as

__all__ = ["Ended", "be_as_new", "may_go_on", "run_series"]

#: Seconds of CPU. After a job that took more, a fork costs little against it, and a process that
#: has held much memory does not give all of it back. A failure may leave anything behind.
_SHORT = 0.3
_END = b"."


class Ended(NamedTuple):
    """How a job ended, and its memory in bytes if known."""

    end: End
    memory: int = 0


def run_series(
    keys: Sequence[str],
    run_one: Callable[[str], int],
    log: Callable[[str], AbstractContextManager[IO[bytes]]],
) -> list[Ended]:
    """Run the first of some jobs, at least one; return how they ended.

    ``run_one`` runs a job, by its key, and ``log`` opens what gets its output.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    # A pipe would be full at some thousand jobs: it is not read while they run.
    tell = os.memfd_create("ended")
    words = LastWords()
    pid = os.fork()
    if pid == 0:
        words.speak()
        live_as(partial(_run, keys, run_one, log, tell), parent)
    last = wait_for(pid, words)
    with os.fdopen(tell, "rb") as stream:
        stream.seek(0)
        said = stream.read().splitlines()
    told = [tuple(map(int, one.split())) for one in said if one != _END]
    ended = [Ended(End(status, {DONE: str(status)}), memory) for status, memory in told]
    if _END not in said:
        return [*ended, Ended(last)]
    return [*ended[:-1], ended[-1]._replace(end=last)]  # it has ended with the process


def _run(
    keys: Sequence[str],
    run_one: Callable[[str], int],
    log: Callable[[str], AbstractContextManager[IO[bytes]]],
    tell: int,
) -> int:
    folder, variables = os.open(".", os.O_RDONLY), dict(os.environ)
    me, status, before = os.getpid(), 0, Before()
    for number, key in enumerate(keys):
        began = time.process_time()
        if number > 0:
            os.fchdir(folder)
            os.environ.clear()
            os.environ.update(variables)
            be_as_new()
        with log(key) as stream:
            for output in (1, 2):
                os.dup2(stream.fileno(), output)
            status = exit_status(partial(run_one, key))
        say(**{DONE: str(status)})
        if os.getpid() != me:  # an operation has forked, and this is what it has forked
            return status
        os.write(tell, b"%d %d\n" % (status, peak_memory()))
        if not may_go_on(status, began, before):
            break
    os.write(tell, _END)
    return status


def may_go_on(status: int, began: float, before: Before) -> bool:
    """Whether this process may run another job: the last was small, and leaves nothing behind.

    ``began`` is the CPU time of the process, in seconds, when that job began.
    """
    if status != 0 or time.process_time() - began > _SHORT:
        return False
    # What a package sets when it is imported (a seed, a variable), it would not set again; and
    # handlers, threads and open files end with the process of the job that has left them.
    return not (before.has_new_packages() or before.has_more())


def be_as_new() -> None:
    """Forget which random numbers the job before has drawn, and what it took."""
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    count_from_here()
