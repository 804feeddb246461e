"""The end of a job: as Python ends, and nothing that it has started outlives it.

A forked job ends as a cold one: threads are joined, exit handlers run, files are flushed, libraries
shut down. Most jobs leave nothing of that to do, and end at once: to take the interpreter apart
costs 25 ms, most of it for modules that were imported before the fork.

A job leads a process group of its own. Who waits for it passes signals on to the group, and kills
what is left of it when the job has ended.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import logging
import os
import resource
import signal
import stat
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from types import FrameType
from typing import NoReturn

from fasthep_smk.util.last_words import LastWords
from fasthep_smk.util.processes import die_with_parent, in_words, keep_descendants

__all__ = [
    "DONE",
    "Before",
    "End",
    "bad_end",
    "end_python",
    "guard",
    "kill_group",
    "wait_for",
]

#: Said by a job that has come to its end, whether it has failed or not.
DONE = "done"

#: What asks a job to end.
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PYTHON = sys.stdlib_module_names
#: Compiled packages that have nothing to do when Python ends: that would cost a job 60 ms, as it
#: takes everything apart that was imported before the fork.
_NOTHING_AT_THE_END = frozenset({"correctionlib"})


class Before:
    """What a process had before a job, to be compared with what the job leaves."""

    def __init__(self) -> None:
        # Python keeps them in order. To look at each would copy the pages that hold their names.
        self._last_module = next(reversed(sys.modules))
        self._counts, self._files = _counts(), _written()

    def has_new_packages(self) -> bool:
        """Whether the job has imported a package, other than Python's own."""
        return bool(self._brought())

    def has_more(self) -> bool:
        """Whether the job leaves anything that the end of Python takes care of.

        That is handlers, finalizers, threads that are waited for, files open for writing, child
        processes, and compiled packages: these may have handlers of their own, which are not seen,
        but for those that were looked at.
        What libraries keep open to read ROOT files is none of that: sockets and daemon threads.
        """
        more = any(now > had for now, had in zip(_counts(), self._counts, strict=True))
        return more or bool(_written() - self._files) or any(map(_is_compiled, self._brought()))

    def _brought(self) -> list[str]:
        modules = iter(reversed(sys.modules))
        new = [*takewhile(lambda name: name != self._last_module, modules)]
        new = [name for name in new if _package(name) not in _PYTHON]
        known = {_package(name) for name in (self._last_module, *modules)} if new else set()
        return [name for name in new if _package(name) not in known]


def end_python(status: int, before: Before) -> NoReturn:
    """End this process, forked for a job, with ``status``; as Python ends, if that changes a thing.

    Where Python's own output cannot be written, its end changes the status, as in a cold job.
    """
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        quick = not before.has_more()
    except (OSError, ValueError, AttributeError):
        quick = False
    if quick:
        os._exit(status)
    ctypes.pythonapi.Py_Exit(ctypes.c_int(status))
    os._exit(status)  # not reached


@dataclass(frozen=True)
class End:
    """How a job's process ended: with which exit status, negative for a signal.

    ``said`` is what it was about to do, ``seconds`` how long it has lived.
    """

    status: int
    said: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def __str__(self) -> str:
        return in_words(self.status)


def bad_end(status: int, words: LastWords) -> End | None:
    """Return how a job's process ended, if it failed or did not come to its end."""
    said = words.heard()
    return End(status, said, words.seconds()) if status != 0 or DONE not in said else None


def guard(on_bad_end: Callable[[End], None]) -> None:
    """Go on in a forked process that leads a group of its own; this one waits, and ends like it.

    ``on_bad_end`` is told of one that failed, that something in it has ended before its work was
    done, or that was killed by a signal that was not for all of us.
    """
    keep_descendants()
    parent, words = os.getpid(), LastWords()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        die_with_parent(parent)
        words.speak()
        return
    status = wait_for(pid)
    if end := bad_end(status, words):
        with contextlib.suppress(Exception):
            on_bad_end(end)
        status = status or 1
    if status < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # there is one of the job already
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def wait_for(pid: int) -> int:
    """Wait for a job that leads a process group; pass signals on to it; kill what it leaves.

    Returns its exit status, negative for a signal. A signal that was passed on is then for this
    process, too.
    """
    heard: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        heard.append(number)
        kill_group(pid, number)

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        kill_group(pid)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if heard:
        signal.raise_signal(heard[0])
    return status


def kill_group(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to the process group that a job leads; to the job, if it leads none yet."""
    for send in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(pid, number)
            return


def _counts() -> list[int]:
    """Return how many handlers, finalizers, log handlers, threads and child processes there are."""
    handlers = vars(atexit)  # Python counts them, but documents no name for that
    finalizers = vars(weakref.finalize)
    return [
        handlers["_ncallbacks"](),
        len(finalizers["_registry"]),
        len(vars(logging)["_handlerList"]),
        len(vars(threading)["_threading_atexits"]),
        sum(not thread.daemon for thread in threading.enumerate()),
        int(_has_children()),
    ]


def _package(module: str) -> str:
    return module.partition(".")[0]


def _is_compiled(module: str) -> bool:
    if _package(module) in _NOTHING_AT_THE_END:
        return False
    return str(getattr(sys.modules.get(module), "__file__", "")).endswith(".so")


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _written() -> set[tuple[int, int, int]]:
    """Return the descriptors that are open for writing, but for outputs; with what they lead to."""
    found = set()
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 (each job pays for it)
        with contextlib.suppress(OSError):  # that of this look itself
            seen = os.fstat(number)
            is_file = stat.S_IFMT(seen.st_mode) in (stat.S_IFREG, stat.S_IFIFO, stat.S_IFCHR)
            if number > 2 and is_file and fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE:
                found.add((number, seen.st_dev, seen.st_ino))
    return found
