"""Jobs one after the other in a forked process: a small one leaves it to the next.

To fork, to copy the pages that are written to and to fill the caches of Python and of libraries
takes four times as long as a small job itself. One that is killed takes no other along.
"""

from __future__ import annotations

import atexit
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import IO, NoReturn

from fasthep_smk.util.last_words import say
from fasthep_smk.worker.job_end import DONE, Before, End, Watch, end_python, fork, wait_for
from fasthep_smk.worker.limits import count_from_here
from fasthep_smk.worker.processes import exit_status

#: Seconds of CPU. After a job that took more, a fork costs little against it, and a process that
#: has held much memory does not give all of it back. A failure may leave anything behind.
_SHORT = 0.3


def start(jobs: Iterable[Callable[[], int]]) -> Watch:
    """Fork a process that runs some jobs, at least the first; each returns its exit status.

    The next one is asked for, in that process, when the last was small and leaves nothing behind.
    """
    process = fork()
    if process is None:
        _run(jobs)
    return process


def _run(jobs: Iterable[Callable[[], int]]) -> NoReturn:
    """Be the forked process: run jobs, and end with the status of the last, as Python ends."""
    status, me = 1, os.getpid()
    try:
        # What a library that was imported before the fork removes at its end is for all jobs.
        atexit.unregister(shutil.rmtree)
        before = Before()
        for number, job in enumerate(jobs):
            if number > 0:  # which a new process does by itself, and quicker
                random.seed()
                count_from_here()
            if "numpy.random" in sys.modules:
                sys.modules["numpy.random"].seed()  # or all would draw the same numbers
            began = time.process_time()
            status = exit_status(job)
            if os.getpid() != me:  # an operation has forked, and this is what it has forked
                os._exit(status)
            if status != 0 or time.process_time() - began > _SHORT:
                break
            # What a package sets when it is imported (a seed, a variable), it would not set again;
            # and handlers, threads and open files end with the process of the job that left them.
            if before.has_new_packages() or before.has_more():
                break
        end_python(status, before)
    finally:
        os._exit(status)


def enter(folder: str | int, variables: Mapping[str, str]) -> None:
    """Give a job its working folder and its environment."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    tempfile.tempdir = None  # the job's own variables name it


def write_to(outputs: Sequence[int]) -> None:
    """Give a job its standard output and error, and close what they were until now."""
    for goal, output in enumerate(outputs, start=1):
        os.dup2(output, goal)
    for output in set(outputs):
        os.close(output)


def run_series(
    keys: Sequence[str],
    run_one: Callable[[str], int],
    log: Callable[[str], AbstractContextManager[IO[bytes]]],
) -> list[End]:
    """Run the first of some jobs, at least one; return how they ended.

    ``run_one`` runs a job, by its key, and ``log`` opens what gets its output.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    # A pipe would be full at some thousand jobs: it is not read while they run.
    tell = os.memfd_create("ended")

    def run(key: str, folder: int, variables: Mapping[str, str]) -> int:
        say()  # not what the job before has said
        enter(folder, variables)
        with log(key) as stream:
            write_to([os.dup(stream.fileno())] * 2)
        status = exit_status(partial(run_one, key))
        say(**{DONE: str(status)})
        return status

    def jobs() -> Iterator[Callable[[], int]]:
        at_start = os.open(".", os.O_RDONLY), dict(os.environ)
        for number, key in enumerate(keys):
            if number > 0:  # the job before has left its process to this one
                os.write(tell, b".")
            yield partial(run, key, *at_start)

    last = wait_for(start(jobs()))
    ended = os.fstat(tell).st_size
    os.close(tell)
    return [*[End(0, {DONE: "0"})] * ended, last]
