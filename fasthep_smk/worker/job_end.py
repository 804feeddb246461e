"""The end of a job: as Python ends, in time, and nothing that it has started outlives it.

A forked job ends as a cold one: threads are joined, exit handlers run, files are flushed, libraries
shut down. Most jobs leave nothing of that to do, and end at once: to take the interpreter apart
costs 25 ms, most of it for modules that were imported before the fork.

A job leads a process group of its own. Who waits for it passes signals on to the group, ends it
when its time is over, and kills what is left of it when the job has ended. That needs nothing of
the job's process, which may be stopped, or in code that hears no signal. Once a job has said that
its work is done, how its process ends changes nothing.
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

from fasthep_smk.util.last_words import LastWords, end_by, say_also
from fasthep_smk.util.processes import die_with_parent, in_words, keep_descendants

#: Said by a job that has come to its end, with its exit status; with nothing if what its process
#: ends with is that of the job.
DONE = "done"
#: Seconds between two looks at whether a job's time is over.
LOOK = 1.0
#: Seconds that a job gets for what it leaves to the end of Python.
_GRACE = 10.0
#: Of many threads, this many characters are named: there is little room for last words.
_LONGEST = 300
#: Lets a job print where its threads are, and end.
_LAST_CALL = signal.SIGUSR2

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
        packages = {_package(name) for name in (self._last_module, *modules)} if new else set()
        return [name for name in new if _package(name) not in packages]


def end_python(status: int, before: Before | None = None) -> NoReturn:
    """End this process of a job with ``status``; as Python ends, if that changes a thing.

    Without ``before`` it does. Where Python's own output cannot be written, its end changes the
    status. What takes longer than some seconds is ended by who waits for the process.
    """
    end_by(_GRACE)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        quick = before is not None and not before.has_more()
    except (OSError, ValueError, AttributeError):
        quick = False
    if quick:
        os._exit(status)
    _say_what_is_waited_for()
    ctypes.pythonapi.Py_Exit(ctypes.c_int(status))
    os._exit(status)  # not reached


def _say_what_is_waited_for() -> None:
    """Say which threads Python waits for at its end, until it calls the exit handlers."""
    main = threading.main_thread()
    left = [repr(t.name) for t in threading.enumerate() if not t.daemon and t is not main]
    if left:
        say_also(at=f"thread {', '.join(left)[:_LONGEST]}")
        atexit.register(say_also, at="")  # it is called before all others


@dataclass(frozen=True)
class End:
    """How a job's process ended: with which exit status, negative for a signal.

    ``said`` is what it was about to do, ``was_late`` whether it was ended since its time was over.
    """

    status: int
    said: Mapping[str, str] = field(default_factory=dict)
    was_late: bool = False

    def __str__(self) -> str:
        return in_words(self.status)

    @property
    def of_job(self) -> int:
        """The job's exit status: that of its process counts only where its work was not done."""
        if DONE not in self.said:
            return self.status or 1
        return int(self.said[DONE] or self.status)

    @property
    def is_bad(self) -> bool:
        """Whether the process did not come to its end, or not as it said."""
        return DONE not in self.said or self.status != int(self.said[DONE] or self.status)


class Watch:
    """A job's process, which is ended when its time is over, as it has said itself."""

    def __init__(self, pid: int, words: LastWords) -> None:
        self.pid, self.words = pid, words
        self._is_late = False

    def look(self) -> None:
        """End the process if its time is over: with a last call, or after that."""
        if not self.words.is_over():
            return
        kill_group(self.pid, signal.SIGKILL if self._is_late else _LAST_CALL)
        self._is_late = True

    def end(self, status: int) -> End:
        """Return how the process ended, by what the kernel says of it (``waitpid``)."""
        return End(os.waitstatus_to_exitcode(status), self.words.heard(), self._is_late)


def fork() -> Watch | None:
    """Fork a process that leads a session and group of its own, and is killed if this one ends.

    ``None``: this is that process.
    """
    parent, words = os.getpid(), LastWords()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        die_with_parent(parent)
        words.speak()
        return None
    return Watch(pid, words)


def guard(on_bad_end: Callable[[End], None]) -> None:
    """Go on in a forked process that leads a group of its own; this one waits, and ends like it.

    ``on_bad_end`` is told of one that something in it has ended before its work was done, that did
    not end well afterwards, or that was killed by a signal that was not for all of us.
    """
    keep_descendants()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback while this or the job imports
    process = fork()
    if process is None:
        return
    end = wait_for(process)
    if end.is_bad:
        with contextlib.suppress(Exception):
            on_bad_end(end)
    status = end.of_job
    if status < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # there is one of the job already
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def wait_for(process: Watch) -> End:
    """Wait for a job that leads a process group, and return how it ended, in time.

    Signals are passed on to it, and are then for this process, too. What it leaves is killed.
    """
    heard: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        heard.append(number)
        kill_group(process.pid, number)

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])  # it is waited for
    try:
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            signal.sigtimedwait([signal.SIGCHLD], LOOK)
            process.look()
        kill_group(process.pid)
        _, status = os.waitpid(process.pid, 0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)
    if heard:
        signal.raise_signal(heard[0])
    return process.end(status)


def kill_group(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to the process group that a job leads; to the job, if it leads none yet.

    It is heard also by what was stopped.
    """
    for send in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(pid, number)
            send(pid, signal.SIGCONT)
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
    descriptors = set()
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 (each job pays for it)
        with contextlib.suppress(OSError):  # that of this look itself
            seen = os.fstat(number)
            is_file = stat.S_IFMT(seen.st_mode) in (stat.S_IFREG, stat.S_IFIFO, stat.S_IFCHR)
            if number > 2 and is_file and fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE:
                descriptors.add((number, seen.st_dev, seen.st_ino))
    return descriptors
