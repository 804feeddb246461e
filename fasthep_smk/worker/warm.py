"""Warm workers: jobs forked from a process that has everything imported.

``python -m fasthep_smk.worker.warm SOCKET LIFELINE`` is started by a run on one machine, and
listens at a Unix socket. ``smk/worker``, which Snakemake starts for each job, hands the job over
through ``client.py`` instead of starting a cold Python, and ends with its exit status.

A forked job is as good as a cold one:

- the process that forks has one thread, which is looked at before every fork; libraries that start
  threads for linear algebra are held to one while it lives, and a job that was given more cpus
  starts cold;
- it has the environment that the imported modules have seen, but for variables that say nothing to
  them: else it starts cold;
- nothing of the user's is imported before the fork, no file of the analysis is open, and the random
  numbers of each job start anew;
- a job has its own session, working directory, environment, standard output and error; a signal to
  the client reaches it, and if the client dies, so does it;
- its memory and time are its own, as the kernel counts them.

The process ends when the last holder of the lifeline (a pipe) is gone: the run and its Snakemake,
however they ended.
"""

from __future__ import annotations

import array
import contextlib
import os
import re
import selectors
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from fasthep_smk.worker.process import MODULES, has_one_thread, import_for_good, live_as

__all__ = ["main", "serve"]

#: What plots import, in steps that keep no job waiting for long; it starts no thread either.
_FOR_PLOTS = (
    "matplotlib",
    "matplotlib.figure",
    "matplotlib.pyplot",
    "matplotlib.backends.backend_agg",
    "PIL.PngImagePlugin",
    "mplhep",
    "fasthep_render.hist.hist1d",
    "scipy.special",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.ndimage",
    "scipy.integrate",
    "scipy.interpolate",
    "scipy.stats.distributions",
    "mplhep.error_estimation",
)
#: Variables that Snakemake and its plugins set or change for a job; no import looks at them, or
#: they are ours.
_CHANGED = re.compile(
    rb"\w+_NUM_THREADS|VECLIB_MAXIMUM_THREADS|TE?MP(DIR)?|TEMPDIR|PWD|OLDPWD|SHLVL|_|CONDOR_CONFIG"
    rb"|FASTHEP_SMK_\w+|JE_ARROW_MALLOC_CONF"
)
_MOST = 1_000_000


class _Request(NamedTuple):
    """A job that a client asks for: its folder, its arguments, its environment."""

    folder: bytes
    arguments: list[str]
    variables: dict[bytes, bytes]


def main() -> int:
    """Import, listen, and fork until nobody holds the lifeline."""
    path, lifeline = Path(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the run to handle; jobs hear the client
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(128)
        try:
            import_for_good(MODULES)
            serve(listener, lifeline)
        finally:
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                path.parent.rmdir()
    return 0


def serve(listener: socket.socket, lifeline: int) -> None:
    """Fork a job for each connection; tell its exit status to whoever asked for it."""
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken)
    jobs: dict[int, socket.socket] = {}  # by process
    later: list[str] = []  # to be imported when there is nothing else to do
    with selectors.DefaultSelector() as selector:
        for source in (listener, lifeline, wake):
            selector.register(source, selectors.EVENT_READ)
        while True:
            ready = selector.select(0 if later else None)
            if not ready and later:
                import_for_good([later.pop(0)])
            for key, _ in ready:
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    pid = _start(connection, [listener.fileno(), lifeline, wake, woken])
                    if pid is None:
                        connection.close()
                    else:
                        jobs[pid] = connection
                        selector.register(connection, selectors.EVENT_READ, data=pid)
                elif key.fileobj == wake:
                    os.read(wake, 4096)
                    _reap(jobs, selector)
                elif key.fileobj == lifeline:
                    if os.read(lifeline, 64):
                        later = list(_FOR_PLOTS)
                        continue
                    for pid in jobs:
                        _signal(pid, signal.SIGKILL)
                    return
                elif not _hear(key.data, jobs):
                    # It is reaped as ever; until then its silence must not wake us again.
                    selector.unregister(key.fileobj)


def _start(connection: socket.socket, own: list[int]) -> int | None:
    """Fork a job; ``None`` if it cannot be done safely: the client then starts it cold."""
    try:
        connection.settimeout(10)
        request, descriptors = _receive(connection)
    except (OSError, ValueError, KeyError):
        return None
    pid = None
    if has_one_thread() and _has_our_environment(request):
        connection.sendall(b"+")
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            for descriptor in own:
                os.close(descriptor)
            _become(request, descriptors, parent)
        connection.setblocking(False)
    for descriptor in descriptors:
        os.close(descriptor)
    return pid


def _has_our_environment(request: _Request) -> bool:
    """Tell whether what was imported here has seen the variables that the job has."""
    ours, its = (
        {name: value for name, value in variables.items() if not _CHANGED.fullmatch(name)}
        for variables in (os.environb, request.variables)
    )
    return ours == its


def _receive(connection: socket.socket) -> tuple[_Request, list[int]]:
    """Return what is asked for, and the job's standard output and error."""
    descriptors = array.array("i")
    data, ancillary, _, _ = connection.recvmsg(_MOST, socket.CMSG_SPACE(2 * descriptors.itemsize))
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    head, _, body = data.partition(b"\n")
    length, count = map(int, head.split())
    while len(body) < length:
        part = connection.recv(_MOST)
        if not part:
            raise ValueError("no whole request")
        body += part
    if len(descriptors) != 2:
        raise ValueError("no output to write to")
    folder, *rest = body.split(b"\0")
    variables = [item.partition(b"=") for item in rest[count:]]
    request = _Request(
        folder, [os.fsdecode(item) for item in rest[:count]], {n: v for n, _, v in variables}
    )
    return request, list(descriptors)


def _become(request: _Request, descriptors: list[int], parent: int) -> None:
    """Be the job, in the forked process; never return."""

    def run() -> int:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for descriptor in descriptors:
            os.close(descriptor)
        os.chdir(request.folder)
        os.environ.clear()
        os.environb.update(request.variables)
        tempfile.tempdir = None  # the job's own variables name it
        from fasthep_smk.worker.job import main as run_job

        return run_job(request.arguments, warm=True)

    live_as(run, parent, descriptors)


def _reap(jobs: dict[int, socket.socket], selector: selectors.BaseSelector) -> None:
    """Tell clients how their jobs ended."""
    while jobs:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        connection = jobs.pop(pid, None)
        if connection is not None:
            with contextlib.suppress(KeyError):
                selector.unregister(connection)
            with connection, contextlib.suppress(OSError):
                connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _hear(pid: int, jobs: dict[int, socket.socket]) -> bool:
    """Pass a client's signal on to its job; without a client the job ends, and ``False``."""
    try:
        numbers = jobs[pid].recv(64)
    except (BlockingIOError, InterruptedError):
        return True
    except OSError:
        numbers = b""
    for number in numbers or [signal.SIGKILL]:
        _signal(pid, number)
    return bool(numbers)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


if __name__ == "__main__":
    sys.exit(main())
